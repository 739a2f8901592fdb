"""Cards and their caching, extended cards, manifest and health check."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import AgentCard, GetExtendedAgentCardRequest, GetTaskRequest
from a2a.utils.errors import TaskNotFoundError
from fastapi import FastAPI

from aion_core import __version__
from tests.support.declared import AION_YAML
from tests.support.deployment import BASE_URL, at, deployed
from tests.support.rows import each_row

EXTENSION = "https://example.com/ext"
PATHS = ["/.well-known/agent-card.json", "/.well-known/agent.json"]


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return deployed(tmp_path, AION_YAML)


async def read(app: FastAPI, path: str = PATHS[0], **headers: str) -> httpx.Response:
    async with at(app) as client:
        return await client.get(path, headers=headers)


async def call(app: FastAPI, method: str, path: str = "/") -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    async with at(app) as client:
        return (await client.post(path, json=body)).json()


# --- The card ---


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", ["", "/agents/helper"])
async def test_agent_card_has_fields_declared_in_aion_yaml(app: FastAPI, prefix: str, path: str) -> None:
    answer = await read(app, f"{prefix}{path}")
    card = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert {name: card[name] for name in ("name", "description", "version", "documentationUrl", "iconUrl")} == {
        "name": "Hélper \U0001f916",
        "description": "Answers questions.",
        "version": "2.1.0",
        "documentationUrl": "https://example.com/helper",
        "iconUrl": "https://example.com/helper.png",
    }
    assert card["provider"] == {"organization": "Example", "url": "https://example.com"}
    assert card["defaultInputModes"] == ["text/plain", "image/png"]
    assert card["defaultOutputModes"] == ["text/markdown"]
    assert card["skills"] == [
        {
            "id": "find",
            "name": "Find",
            "description": "Finds things.",
            "tags": ["search"],
            "examples": ["Where is my hat?"],
            "inputModes": ["text/plain"],
            "outputModes": ["application/json"],
        },
        {
            "id": "plain",
            "name": "Plain",
            "description": "Says little.",
            "tags": ["plain"],
            # The defaults: pydantic-ai's client requires these fields, although A2A does not.
            "inputModes": ["text/plain", "image/png"],
            "outputModes": ["text/markdown"],
        },
    ]
    capabilities = card["capabilities"]
    assert (capabilities["streaming"], capabilities["pushNotifications"]) == (True, True)
    assert capabilities["extendedAgentCard"] is card["supportsAuthenticatedExtendedCard"] is True
    # Aion's own extensions are missing, because the agent cannot be loaded and so uses none of them.
    [extension] = capabilities["extensions"]
    assert extension == {
        "uri": EXTENSION,
        "description": "More.",
        "required": True,
        "params": {"n": 1, "deep": {"empty": "", "x": [1.5]}},
    }
    # The card keeps the author's 1, which protobuf would change to 1.0.
    assert b'"n":1}' in answer.content


@pytest.mark.parametrize(
    ("agent", "rpc", "rest"),
    [
        ("", f"{BASE_URL}/", BASE_URL),
        ("/agents/helper", f"{BASE_URL}/agents/helper/", f"{BASE_URL}/agents/helper"),
        ("/agents/quiet", f"{BASE_URL}/agents/quiet/", f"{BASE_URL}/agents/quiet"),
    ],
)
async def test_card_urls_ignore_host_header(app: FastAPI, agent: str, rpc: str, rest: str) -> None:
    """Send a foreign Host header: the card's URLs do not change. Its first interface is v1.0 by JSON-RPC."""
    headers = {"host": "evil.test", "x-forwarded-host": "evil.test", "x-forwarded-proto": "ftp"}
    answer = await read(app, f"{agent}{PATHS[0]}", **headers)
    card = answer.json()
    assert b"evil" not in answer.content
    assert [(its["protocolBinding"], its["protocolVersion"], its["url"]) for its in card["supportedInterfaces"]] == [
        ("JSONRPC", "1.0", rpc),
        ("HTTP+JSON", "1.0", rest),
        ("JSONRPC", "0.3", rpc),
        ("HTTP+JSON", "0.3", rest),
    ]
    # v0.3 lists the preferred interface also under `additionalInterfaces`, and has a version of three numbers.
    assert (card["url"], card["preferredTransport"], card["protocolVersion"]) == (rpc, "JSONRPC", "0.3.0")
    assert card["additionalInterfaces"] == [
        {"transport": "JSONRPC", "url": rpc},
        {"transport": "HTTP+JSON", "url": rest},
    ]


async def test_card_omits_disabled_capabilities(app: FastAPI) -> None:
    card = (await read(app, f"/agents/quiet{PATHS[0]}")).json()
    switches = {name: value for name, value in card["capabilities"].items() if name != "extensions"}
    assert switches == {"streaming": False, "pushNotifications": False, "extendedAgentCard": False}
    assert "extensions" not in card["capabilities"]
    assert "supportsAuthenticatedExtendedCard" not in card
    assert card["name"] == "quiet"
    assert card["skills"]
    assert all(card["skills"][0][name] for name in ("id", "name", "description", "tags"))
    assert not {"documentationUrl", "iconUrl", "provider"} & set(card)


async def test_sdk_reads_same_card_with_and_without_version_header(app: FastAPI) -> None:
    cards: list[AgentCard] = []
    for headers in ({}, {"A2A-Version": "1.0"}):
        async with at(app, "http://test") as client:
            cards.append(await A2ACardResolver(client, "http://test").get_agent_card(http_kwargs={"headers": headers}))
    assert cards[0] == cards[1]
    assert cards[0].capabilities.extensions[-1].params["n"] == 1


@pytest.mark.parametrize("version", ["1", "1.0", "1.0.3"])
async def test_client_that_requests_v1_gets_card_with_v1_fields(app: FastAPI, version: str) -> None:
    by_header = await read(app, **{"A2A-Version": version})
    by_query = await read(app, f"{PATHS[0]}?A2A-Version={version}")
    assert by_header.content == by_query.content
    assert set(by_header.json()) == {
        "name", "description", "version", "supportedInterfaces", "provider", "documentationUrl", "iconUrl",
        "capabilities", "defaultInputModes", "defaultOutputModes", "skills",
    }  # fmt: skip
    both = await read(app)
    assert by_header.headers["vary"] == both.headers["vary"] == "A2A-Version, Origin"
    assert by_header.headers["etag"] != both.headers["etag"]


@pytest.mark.parametrize("version", ["", "0.3", "9.9", "abc"])
async def test_client_not_requesting_v1_gets_card_for_both_protocol_versions(app: FastAPI, version: str) -> None:
    assert (await read(app, **{"A2A-Version": version})).content == (await read(app)).content


# --- Caching ---


async def test_card_is_cacheable(app: FastAPI) -> None:
    answer = await read(app)
    assert answer.headers["cache-control"] == "public, max-age=300"
    etag = answer.headers["etag"]
    assert etag.startswith('"')
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await read(app, **{"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        for name in ("etag", "cache-control", "vary", "last-modified"):
            assert again.headers[name] == answer.headers[name]
    assert (await read(app, **{"If-None-Match": '"other"'})).status_code == 200


async def test_card_bytes_are_equal_across_processes(app: FastAPI, tmp_path: Path) -> None:
    other = deployed(tmp_path, AION_YAML)
    assert (await read(app)).content == (await read(other)).content
    moved = deployed(tmp_path, AION_YAML, AION_BASE_URL="https://moved.example.com")
    assert (await read(moved)).headers["etag"] != (await read(app)).headers["etag"]


async def test_last_modified_header_of_card_is_start_of_process(app: FastAPI) -> None:
    modified = (await read(app)).headers["last-modified"]
    since = parsedate_to_datetime(modified)
    assert datetime.now(UTC) - timedelta(minutes=5) < since <= datetime.now(UTC)

    async def status(date: str, **headers: str) -> int:
        return (await read(app, **{"If-Modified-Since": date, **headers})).status_code

    assert await status(modified) == 304
    assert await status(format_datetime(since + timedelta(days=1), usegmt=True)) == 304
    assert await status(format_datetime(since - timedelta(seconds=1), usegmt=True)) == 200
    far = "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"
    for odd in ("yesterday", "", "Fri, 31 Feb 2025 00:00:00 GMT", far, format_datetime(since.replace(tzinfo=None))):
        assert await status(odd) == 200
    # The ETag has precedence over the date (RFC 9110 13.1.3).
    assert await status(modified, **{"If-None-Match": '"other"'}) == 200


async def test_head_request_returns_headers_of_get(app: FastAPI) -> None:
    async with at(app) as client:
        got, head = await client.get(PATHS[0]), await client.head(PATHS[0])
        assert (head.status_code, head.content) == (200, b"")
        assert dict(head.headers) == dict(got.headers)
        assert (await client.head(PATHS[0], headers={"If-None-Match": got.headers["etag"]})).status_code == 304
        assert (await client.delete(PATHS[0])).status_code == 405


# --- The extended card ---

RPC_NAMES = ["GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard", "agent/authenticatedExtendedCard"]


@pytest.mark.parametrize("method", RPC_NAMES)
@pytest.mark.parametrize("path", ["/", "/agents/helper/"])
async def test_extended_card_adds_skills_to_public_card(app: FastAPI, method: str, path: str) -> None:
    """Request the extended card by each path and method: its format is that of the request's version."""
    card = (await call(app, method, path))["result"]
    assert card["description"] == "Answers more questions."
    assert [skill["id"] for skill in card["skills"]] == ["find", "plain", "secret"]
    assert ("supportedInterfaces" in card) is (method == RPC_NAMES[0])
    assert ("additionalInterfaces" in card) is (method != RPC_NAMES[0])
    url = card["supportedInterfaces"][0]["url"] if method == RPC_NAMES[0] else card["url"]
    assert url == f"{BASE_URL}{path}"
    public = (await read(app)).json()
    assert "secret" not in json.dumps(public)
    assert {name: card[name] for name in ("name", "version", "provider")} == {
        name: public[name] for name in ("name", "version", "provider")
    }


@each_row(("version", "binding"), [(v, b) for v in ("1.0", "0.3") for b in ("JSONRPC", "HTTP+JSON")])
async def test_sdk_can_call_each_interface_named_in_card(tmp_path: Path, version: str, binding: str) -> None:
    """The SDK reads the card, and sends a request to each interface in it."""
    app = deployed(tmp_path, AION_YAML, AION_BASE_URL="http://test")
    async with at(app, "http://test") as http:
        # Declare the agent's required extension, in the header of v1.0 and in that of v0.3.
        http.headers.update({"A2A-Extensions": EXTENSION, "X-A2A-Extensions": EXTENSION})
        card = await A2ACardResolver(http, "http://test/agents/helper").get_agent_card()
        only = [
            its
            for its in card.supported_interfaces
            if (its.protocol_version, its.protocol_binding) == (version, binding)
        ]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(only)
        client = ClientFactory(ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])).create(card)
        extended = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert [skill.id for skill in extended.skills] == ["find", "plain", "secret"]
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="nothing"))


@pytest.mark.parametrize("prefix", ["", "/agents/helper"])
async def test_extended_card_at_its_oldest_path_is_never_cached(app: FastAPI, prefix: str) -> None:
    answer = await read(app, f"{prefix}/agent/authenticatedExtendedCard")
    card = answer.json()
    assert [skill["id"] for skill in card["skills"]] == ["find", "plain", "secret"]
    assert card["url"] == card["supportedInterfaces"][0]["url"] == f"{BASE_URL}{prefix}/"
    assert answer.headers["cache-control"] == "private, no-store"
    assert "etag" not in answer.headers
    assert "url" not in (await read(app, "/agent/authenticatedExtendedCard", **{"A2A-Version": "1.0"})).json()


@pytest.mark.parametrize(
    ("agent", "code", "reason", "told"),
    [
        ("quiet", -32004, "UNSUPPORTED_OPERATION", "does not offer"),
        ("unready", -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "not configured"),
    ],
)
async def test_error_for_missing_extended_card_has_reason(
    app: FastAPI, agent: str, code: int, reason: str, told: str
) -> None:
    for method in RPC_NAMES:
        error = (await call(app, method, f"/agents/{agent}"))["error"]
        assert error["code"] == code
        assert told in error["message"]
        assert error["data"][0]["reason"] == reason
    answer = await read(app, f"/agents/{agent}/agent/authenticatedExtendedCard")
    assert answer.status_code == 400
    assert answer.json()["error"]["details"][0]["reason"] == reason
    assert answer.headers["cache-control"] == "private, no-store"


# --- The server ---


async def test_manifest_lists_agents_and_paths(app: FastAPI) -> None:
    answer = await read(app, "/.well-known/manifest.json")
    assert answer.json() == {
        "apiVersion": "1.0",
        "name": "Hélper \U0001f916",
        "endpoints": {name: f"/agents/{name}" for name in ("helper", "quiet", "unready")},
    }
    for endpoint in answer.json()["endpoints"].values():
        assert (await read(app, f"{endpoint}{PATHS[0]}")).status_code == 200
    known = {"If-None-Match": answer.headers["etag"]}
    assert (await read(app, "/.well-known/manifest.json", **known)).status_code == 304


@pytest.mark.parametrize("path", ["/health", "/health/"])
async def test_health_returns_status_and_version(app: FastAPI, path: str) -> None:
    answer = await read(app, path)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": __version__})
    assert answer.headers["cache-control"] == "no-store"


async def test_server_without_card_signing_key_serves_no_jwks(app: FastAPI) -> None:
    assert (await read(app, "/.well-known/jwks.json")).status_code == 404
    assert "signatures" not in (await read(app)).json()
