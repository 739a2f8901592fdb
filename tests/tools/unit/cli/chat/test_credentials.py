"""Credentials of requests to an agent, checked by aion's own authentication."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, APIKeySecurityScheme, SecurityScheme
from argon2 import PasswordHasher

from aion_core.auth.schemes.api_key import ApiKeyScheme, make_key
from aion_core.auth.schemes.basic import BasicScheme
from aion_tools.cli.chat.credentials import ClientCredentials, NoCredentials, is_aws_host
from tests.support.auth_app import AuthApp, issuer_scheme
from tests.support.clock import ManualClock
from tests.support.issuer import Issuer, issuing
from tests.support.rows import each_row

HERE = "http://agents.test"
ON_AWS = "https://a1b2c3.execute-api.eu-west-1.amazonaws.com/dev"


@asynccontextmanager
async def asking(app: AuthApp, environ: dict[str, str], header: str = "") -> AsyncIterator[httpx.AsyncClient]:
    """Yield an HTTP client that has read a card that names this header for the API key."""
    credentials = ClientCredentials.from_environ(environ, HERE, "auto")
    card = AgentCard()
    if header:
        card.security_schemes["key"].api_key_security_scheme.location = "header"
        card.security_schemes["key"].api_key_security_scheme.name = header
    credentials.read_card(card)
    async with httpx.AsyncClient(auth=credentials, transport=httpx.ASGITransport(app.app), base_url=HERE) as client:
        yield client


async def test_server_accepts_each_kind_of_credentials(clock: ManualClock) -> None:
    users = {"ann": PasswordHasher(time_cost=1, memory_cost=64).hash("a:colon")}
    key = make_key("alice", now=clock.now())
    issuer: Issuer
    with issuing() as issuer:
        app = AuthApp(
            clock, users=users, jwt=issuer_scheme(issuer), key=ApiKeyScheme(header="X-Mine"), basic=BasicScheme()
        )
        await app.keys.add(key.record)
        for environ, subject in (
            ({"TOKEN": issuer.token(sub="bob")}, "bob"),
            ({"API_KEY": key.text}, "alice"),
            ({"BASIC": "ann:a:colon"}, "ann"),
        ):
            async with asking(app, environ, header="X-Mine") as client:
                assert (await client.get("/")).json()["subject"] == subject
        async with asking(app, {}) as client:
            assert (await client.get("/")).status_code == 401


async def test_api_key_and_password_are_sent_together(clock: ManualClock) -> None:
    users = {"ann": PasswordHasher(time_cost=1, memory_cost=64).hash("secret")}
    both = {"basic": frozenset[str](), "key": frozenset[str]()}
    app, key = (
        AuthApp(clock, both, users=users, key=ApiKeyScheme(), basic=BasicScheme()),
        make_key("alice", now=clock.now()),
    )
    await app.keys.add(key.record)
    async with asking(app, {"API_KEY": key.text, "BASIC": "ann:secret"}, header="X-API-Key") as client:
        assert (await client.get("/")).json()["subject"] == "ann"


def test_requests_to_aws_hosts_are_signed_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of a role")
    function_url = "https://abc.lambda-url.us-east-2.on.aws/"
    assert str(ClientCredentials.from_environ({}, ON_AWS, "auto")) == "an AWS signature for execute-api in eu-west-1"
    assert str(ClientCredentials.from_environ({}, function_url, "auto")) == "an AWS signature for lambda in us-east-2"
    custom = ClientCredentials.from_environ({}, "https://agents.example.com", "eu-central-1")
    assert str(custom) == "an AWS signature for execute-api in eu-central-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-1")
    configured = ClientCredentials.from_environ({}, "https://agents.example.com", "on")
    assert str(configured) == "an AWS signature for execute-api in us-west-1"
    request = httpx.Request("POST", "https://agents.example.com/", json={})
    (signed,) = custom.auth_flow(request)
    assert signed.headers["x-amz-security-token"] == "of a role"
    assert str(ClientCredentials.from_environ({"TOKEN": "t"}, ON_AWS, "auto")) == "a token"
    assert str(ClientCredentials.from_environ({}, ON_AWS, "off")) == "no credentials"
    assert str(ClientCredentials.from_environ({}, HERE, "auto")) == "no credentials"
    assert not is_aws_host("https://execute-api.eu-west-1.amazonaws.com.evil.example/")


@pytest.mark.parametrize(
    ("environ", "sign", "told"),
    [
        ({"BASIC": "ann"}, "auto", "BASIC must be name:password"),
        ({"BASIC": "ann:x", "TOKEN": "t"}, "auto", "give only one of them"),
        ({"TOKEN": "t"}, "eu-west-1", "give only one of them"),
    ],
)
def test_contradicting_credentials_are_refused(environ: dict[str, str], sign: str, told: str) -> None:
    with pytest.raises(NoCredentials, match=told):
        ClientCredentials.from_environ(environ, ON_AWS, sign)


def test_api_key_without_declared_header_is_refused() -> None:
    with pytest.raises(NoCredentials, match="the card declares no API key in a header"):
        ClientCredentials(api_key="k").read_card(AgentCard())


def test_requests_name_required_extensions_that_are_uris() -> None:
    credentials = ClientCredentials()
    odd = ("https://x.y/a\r\nEvil: 1", "https://x.y/ü", "a b")
    required = [AgentExtension(uri=uri, required=True) for uri in ("https://x.y/a", *odd, "https://x.y/c")]
    optional = AgentExtension(uri="https://x.y/b", required=False)
    credentials.read_card(AgentCard(capabilities=AgentCapabilities(extensions=[*required, optional])))
    (request,) = credentials.auth_flow(httpx.Request("POST", HERE))
    assert request.headers["A2A-Extensions"] == "https://x.y/a,https://x.y/c"


@each_row("name", ["X\r\nEvil: 1", "", "X Key", "Schlüssel", "X:"])
def test_header_of_card_must_be_name_of_header(name: str) -> None:
    scheme = SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name=name))
    with pytest.raises(NoCredentials, match="on the card is not a header name"):
        ClientCredentials(api_key="k").read_card(AgentCard(security_schemes={"key": scheme}))
