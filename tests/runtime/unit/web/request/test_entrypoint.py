"""Base URL of a card if none is configured: the HTTP entry point in AWS's event."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver
from a2a.utils.signing import create_signature_verifier
from fastapi import FastAPI
from jwt import PyJWK
from starlette.requests import Request
from starlette.types import ASGIApp

from aion_core.bootstrap.app import build_app
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.lambda_runtime.buffered import BufferedHandler
from aion_core.protocol.keys import CardKey
from aion_core.settings import Settings
from aion_core.telemetry import NoopTraces, NullMetrics
from aion_tools.cli.card_verification import keys_in, verify_card
from tests.support import entrypoints
from tests.support.declared import AION_YAML
from tests.support.deployment import IN_MEMORY
from tests.support.recorded import recorded_event, rest_api_event
from tests.support.rows import each_row

CARD, KEYS = "/.well-known/agent-card.json", "/.well-known/jwks.json"
API = "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
URL = "abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-west-1.on.aws"
NOWHERE = "http://127.0.0.1:8000"
EXTENSION = {"A2A-Extensions": "https://example.com/ext", "X-A2A-Extensions": "https://example.com/ext"}

Behind = Callable[[ASGIApp], ASGIApp]
ENTRYPOINTS: dict[str, tuple[Behind, str]] = {
    "a stage": (lambda app: entrypoints.rest_api(app, API, "prod"), f"https://{API}/prod"),
    "a domain": (lambda app: entrypoints.rest_api(app, "Agents.Example.com"), "https://agents.example.com"),
    "a Function URL": (lambda app: entrypoints.function_url(app, URL), f"https://{URL}"),
    "an HTTP API's stage": (lambda app: entrypoints.function_url(app, API, "prod"), f"https://{API}/prod"),
    "an HTTP API's default stage": (lambda app: entrypoints.function_url(app, API), f"https://{API}"),
    "sam local": (entrypoints.sam_local, f"http://{entrypoints.SAM_LOCAL}"),
}
each_entrypoint = pytest.mark.parametrize(("behind", "address"), ENTRYPOINTS.values(), ids=ENTRYPOINTS)


def function(folder: Path, **environ: str) -> FastAPI:
    """Return the app of a deployed function without a base URL."""
    config = folder / "aion.yaml"
    config.write_text(AION_YAML, encoding="utf-8")
    given = {**IN_MEMORY, "AION_CONFIG": str(config), **environ}
    return build_app(Settings.from_environ(given), Telemetry(NullMetrics(), NoopTraces()))


def signing(folder: Path, algorithm: str = "ES256") -> dict[str, str]:
    file = folder / "key.pem"
    file.write_text(CardKey.generate(algorithm)[1])
    return {"AION_CARD_KEY_FILE": str(file)}


def at(app: ASGIApp, address: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=address, headers=EXTENSION)


def urls(card: dict[str, Any]) -> set[str]:
    """Return all URLs in a card for clients of either version."""
    named = [its["url"] for name in ("supportedInterfaces", "additionalInterfaces") for its in card.get(name, ())]
    return {*named, *([card["url"]] if "url" in card else [])}


# --- The public card ---


@each_entrypoint
async def test_card_urls_are_those_of_called_entry_point(behind: Behind, address: str, tmp_path: Path) -> None:
    """Read the card without a configured URL, as after the first deployment, and call its URL by the SDK."""
    async with at(behind(function(tmp_path)), address) as client:
        card = (await client.get(CARD)).json()
        assert urls(card) == {f"{address}/", address}
        assert [its["url"] for its in card["supportedInterfaces"]] == [f"{address}/", address] * 2
        assert [its["url"] for its in card["additionalInterfaces"]] == [f"{address}/", address]
        assert card["url"] == f"{address}/"
        assert urls((await client.get(CARD, headers={"A2A-Version": "1.0"})).json()) == {f"{address}/", address}
        for path in ("/agents/helper", "/agents/quiet"):
            card = (await client.get(f"{path}{CARD}")).json()
            assert urls(card) == {f"{address}{path}/", f"{address}{path}"}, "the URL below which it was requested"
        found = await A2ACardResolver(client, address).get_agent_card()
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "nobodys"}}
        answer = await client.post(found.supported_interfaces[0].url, json=body, headers={"A2A-Version": "1.0"})
        assert answer.json()["error"]["code"] == -32001


@each_entrypoint
async def test_card_url_ignores_host_and_proxy_headers(behind: Behind, address: str, tmp_path: Path) -> None:
    """Send a foreign Host header, or the headers of a proxy: the card's URL does not change."""
    spoofed = {
        "host": "evil.example",
        "x-forwarded-host": "evil.example",
        "x-forwarded-proto": "http",
        "x-forwarded-port": "81",
        "x-forwarded-prefix": "/evil",
        "forwarded": "host=evil.example;proto=http",
        "x-original-host": "evil.example",
    }
    async with at(behind(function(tmp_path)), address) as client:
        plain, told = await client.get(CARD), await client.get(CARD, headers=spoofed)
    assert told.content == plain.content
    assert told.headers["etag"] == plain.headers["etag"]


async def test_configured_base_url_overrides_entry_point(tmp_path: Path) -> None:
    behind, address = ENTRYPOINTS["a stage"]
    said = "https://cdn.example.com/a2a"
    async with at(behind(function(tmp_path, AION_BASE_URL=said)), address) as client:
        assert urls((await client.get(CARD)).json()) == {f"{said}/", said}
        assert urls((await client.get("/extendedAgentCard")).json()) == {f"{said}/", said}


async def test_signed_card_has_urls_of_entry_point_that_serves_it(tmp_path: Path) -> None:
    """Each entry point's card has its own ETag, and a signature that names its own URL of the key."""
    app = function(tmp_path, **signing(tmp_path))
    both = {address: behind(app) for behind, address in (ENTRYPOINTS["a stage"], ENTRYPOINTS["a Function URL"])}
    tags: dict[str, str] = {}
    for _ in range(2):
        for address, entrypoint_url in both.items():
            async with at(entrypoint_url, address) as client:
                answer = await client.get(CARD)
                assert urls(answer.json()) == {f"{address}/", address}
                tags.setdefault(address, answer.headers["etag"])
                assert answer.headers["etag"] == tags[address]
                known = await client.get(CARD, headers={"If-None-Match": answer.headers["etag"]})
                assert (known.status_code, known.content) == (304, b"")
    first, second = tags
    assert tags[first] != tags[second]
    async with at(both[second], second) as client:
        assert (await client.get(CARD, headers={"If-None-Match": tags[first]})).status_code == 200


async def test_cards_stay_correct_for_more_domains_than_cache_holds(tmp_path: Path) -> None:
    app = function(tmp_path)
    for number in [*range(20), 0]:
        address = f"https://a{number}.example.com"
        async with at(entrypoints.rest_api(app, f"a{number}.example.com"), address) as client:
            assert urls((await client.get(CARD)).json()) == {f"{address}/", address}


# --- Signed ---


@pytest.mark.parametrize("entrypoint", ["a stage", "a Function URL"])
async def test_card_signature_verifies_at_each_entry_point(entrypoint: str, tmp_path: Path) -> None:
    """Verify the public and the extended card, by the SDK too."""
    behind, address = ENTRYPOINTS[entrypoint]
    async with at(behind(function(tmp_path, **signing(tmp_path))), address) as client:
        (jwk,) = (await client.get(KEYS)).json()["keys"]
        (key,) = keys_in(json.dumps({"keys": [jwk]}))
        seen: list[str | None] = []

        def found(kid: str | None, jku: str | None) -> PyJWK:
            seen.append(jku)
            return PyJWK(jwk)

        await A2ACardResolver(client, address).get_agent_card(
            signature_verifier=create_signature_verifier(found, ["ES256"])
        )
        assert set(seen) == {f"{address}{KEYS}"}
        for path in (CARD, f"/agents/helper{CARD}", f"/agents/quiet{CARD}", "/agent/authenticatedExtendedCard"):
            card = (await client.get(path)).json()
            assert verify_card(card, lambda _: [key]) == {"v1.0": key.id, "v0.3": key.id}
        # The key URL named in the card serves the public key.
        assert (await client.get(seen[0] or "")).json()["keys"] == [jwk]


async def test_configured_signing_key_url_is_same_at_every_entry_point(tmp_path: Path) -> None:
    elsewhere = "https://keys.example.com/jwks.json"
    app = function(tmp_path, **signing(tmp_path), AION_CARD_KEY_URL=elsewhere)
    for behind, address in ENTRYPOINTS.values():
        async with at(behind(app), address) as client:
            card = await A2ACardResolver(client, address).get_agent_card()
        headers = {json.loads(unpadded(each.protected))["jku"] for each in card.signatures}
        assert headers == {elsewhere}


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# --- The extended card ---


async def test_extended_card_urls_are_those_of_called_entry_point(tmp_path: Path) -> None:
    behind, address = ENTRYPOINTS["a stage"]
    async with at(behind(function(tmp_path)), address) as client:
        for path in ("/", "/agents/helper/", ""):
            for method in ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"):
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
                card = (await client.post(f"{address}{path}", json=body)).json()["result"]
                assert card["description"] == "Answers more questions."
                place = f"{address}{path}".rstrip("/")
                assert urls(card) == {f"{place}/", place}
        for path in ("/extendedAgentCard", "/acme/extendedAgentCard", "/v1/card", "/agent/authenticatedExtendedCard"):
            answer = await client.get(path)
            assert (answer.status_code, urls(answer.json())) == (200, {f"{address}/", address})
            assert "secret" in {skill["id"] for skill in answer.json()["skills"]}


# --- Invalid domains ---


ODD: list[Any] = [
    "", None, 7, ["agents.example.com"], "agents.example.com/evil", "user@agents.example.com", "agents.example .com",
    "agents.example.com:8443", "agents.example.com?", "agents.example.com\n", "https://evil.example", "agents..example.com",
    "agents-.example.com", "agénts.example.com", "agents", "10.0.0.1", "[2001:db8::1]", f"{'a' * 64}.example.com",
    "127.0.0.1:3000@evil.example", "127.0.0.1:0",
]  # fmt: skip


@each_row("domain", ODD)
async def test_invalid_domain_is_ignored_and_logged(
    domain: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = function(tmp_path)
    for entrypoint_url, stage in (
        (entrypoints.rest_api(app, domain, "prod"), "/prod"),
        (entrypoints.function_url(app, domain), ""),
    ):
        caplog.clear()
        async with at(entrypoint_url, f"https://asked.example{stage}") as client:
            answer = await client.get(CARD)
        assert urls(answer.json()) == {f"{NOWHERE}/", NOWHERE}
        assert "AION_BASE_URL is empty" in caplog.text
        assert NOWHERE in caplog.text


@each_row(
    "changes",
    [
        {"requestContext": {}},
        {"requestContext": {"domainName": API}},
        {"requestContext": {"domainName": API, "path": "/prod/another"}},
        {"requestContext": {"domainName": API, "path": f"/prod/../evil{CARD}"}},
        {"requestContext": {"domainName": API, "path": f"@evil.example{CARD}"}},
        {"requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:…"}}},
    ],
)
async def test_lambda_event_without_domain_gets_card_with_loopback_url(changes: dict[str, Any], tmp_path: Path) -> None:
    def odd(request: Request, body: bytes) -> dict[str, Any]:
        event = rest_api_event(request, body, domain=API)
        return {**event, **changes}

    async with at(entrypoints.behind(function(tmp_path), odd), f"https://{API}") as client:
        assert urls((await client.get(CARD)).json()) == {f"{NOWHERE}/", NOWHERE}


async def test_server_outside_lambda_logs_no_base_url_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with at(function(tmp_path, AWS_LAMBDA_FUNCTION_NAME=""), "http://agents.internal") as client:
        assert urls((await client.get(CARD)).json()) == {f"{NOWHERE}/", NOWHERE}
    assert "AION_BASE_URL" not in caplog.text


def test_card_of_buffered_handler_has_url_of_entry_point(tmp_path: Path) -> None:
    """Request the card by recorded events through the buffered handler, which `sam local` uses."""
    handler = BufferedHandler(function(tmp_path))
    rest = recorded_event("rest_api_v1", path=CARD, httpMethod="GET", body=None)
    rest["requestContext"] |= {"path": f"/prod{CARD}", "httpMethod": "GET"}
    url = recorded_event("function_url_v2", rawPath=CARD, body="")
    url["requestContext"]["http"] |= {"method": "GET", "path": CARD}
    for event, address in ((rest, f"https://{API}/prod"), (url, f"https://{URL}")):
        answer = handler(event, entrypoints.CONTEXT)
        assert urls(json.loads(answer["body"])) == {f"{address}/", address}
