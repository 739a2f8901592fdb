"""Whom `aion smoke` asks as: what its credentials say is what aion's own layer in front admits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.types import AgentCard
from argon2 import PasswordHasher
from click.testing import CliRunner

from aion_core.auth.api_keys import make_key
from aion_core.auth.declaration import ApiKey, Basic
from aion_core.cli.smoke import smoke
from aion_core.smoke.credentials import NoCredentials, SmokeCredentials, is_of_aws
from tests.support.clock import ManualClock
from tests.support.issuer import Issuer, issuing
from tests.unit.auth.door import Door
from tests.unit.auth.test_tokens import scheme

HERE = "http://agents.test"
ON_AWS = "https://a1b2c3.execute-api.eu-west-1.amazonaws.com/dev"


@asynccontextmanager
async def asking(door: Door, environ: dict[str, str], header: str = "") -> AsyncIterator[httpx.AsyncClient]:
    """A client as `aion smoke` makes it, when it has read a card that names the header."""
    credentials = SmokeCredentials.from_environ(environ, HERE, "auto")
    card = AgentCard()
    if header:
        card.security_schemes["key"].api_key_security_scheme.location = "header"
        card.security_schemes["key"].api_key_security_scheme.name = header
    credentials.card_read(card)
    async with httpx.AsyncClient(auth=credentials, transport=httpx.ASGITransport(door.app), base_url=HERE) as client:
        yield client


async def test_each_kind_of_credentials_is_sent_as_the_server_asks_for_it(clock: ManualClock) -> None:
    """R96, R97."""
    users = {"ann": PasswordHasher(time_cost=1, memory_cost=64).hash("a:colon")}
    key = make_key("alice", now=clock.now())
    issuer: Issuer
    with issuing() as issuer:
        door = Door(clock, users=users, jwt=scheme(issuer), key=ApiKey(header="X-Mine"), basic=Basic())
        await door.keys.add(key.record)
        for environ, subject in (
            ({"TOKEN": issuer.token(sub="bob")}, "bob"),
            ({"API_KEY": key.text}, "alice"),
            ({"BASIC": "ann:a:colon"}, "ann"),
        ):
            async with asking(door, environ, header="X-Mine") as client:
                assert (await client.get("/")).json()["subject"] == subject
        async with asking(door, {}) as client:
            assert (await client.get("/")).status_code == 401


async def test_a_key_goes_beside_a_password(clock: ManualClock) -> None:
    users = {"ann": PasswordHasher(time_cost=1, memory_cost=64).hash("secret")}
    both = {"basic": frozenset[str](), "key": frozenset[str]()}
    door, key = Door(clock, both, users=users, key=ApiKey(), basic=Basic()), make_key("alice", now=clock.now())
    await door.keys.add(key.record)
    async with asking(door, {"API_KEY": key.text, "BASIC": "ann:secret"}, header="X-API-Key") as client:
        assert (await client.get("/")).json()["subject"] == "ann"


def test_a_front_of_awss_is_signed_for_where_nothing_else_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of a role")
    function_url = "https://abc.lambda-url.us-east-2.on.aws/"
    assert str(SmokeCredentials.from_environ({}, ON_AWS, "auto")) == "an AWS signature for execute-api in eu-west-1"
    assert str(SmokeCredentials.from_environ({}, function_url, "auto")) == "an AWS signature for lambda in us-east-2"
    custom = SmokeCredentials.from_environ({}, "https://agents.example.com", "eu-central-1")
    assert str(custom) == "an AWS signature for execute-api in eu-central-1"
    request = httpx.Request("POST", "https://agents.example.com/", json={})
    (signed,) = custom.auth_flow(request)
    assert signed.headers["x-amz-security-token"] == "of a role"
    assert str(SmokeCredentials.from_environ({"TOKEN": "t"}, ON_AWS, "auto")) == "a token"
    assert str(SmokeCredentials.from_environ({}, ON_AWS, "off")) == "no credentials"
    assert str(SmokeCredentials.from_environ({}, HERE, "auto")) == "no credentials"
    assert not is_of_aws("https://execute-api.eu-west-1.amazonaws.com.evil.example/")


@pytest.mark.parametrize(
    ("environ", "sign", "told"),
    [
        ({"BASIC": "ann"}, "auto", "BASIC has to be name:password"),
        ({"BASIC": "ann:x", "TOKEN": "t"}, "auto", "give one of them"),
        ({"TOKEN": "t"}, "eu-west-1", "give one of them"),
    ],
)
def test_what_does_not_go_together_is_told(environ: dict[str, str], sign: str, told: str) -> None:
    with pytest.raises(NoCredentials, match=told):
        SmokeCredentials.from_environ(environ, ON_AWS, sign)


def test_a_key_that_no_header_takes_is_told() -> None:
    with pytest.raises(NoCredentials, match="the card declares no API key in a header"):
        SmokeCredentials(api_key="k").card_read(AgentCard())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [([], "URL has to say where the deployment is"), ([HERE, "--only", "card,pull"], "there is no check pull")],
)
def test_what_it_cannot_check_it_says(monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str) -> None:
    for name in ("URL", "AION_STACK"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(smoke, arguments)
    assert done.exit_code == 2
    assert told in done.stderr


def test_where_nothing_answers_it_says_so() -> None:
    done = CliRunner().invoke(smoke, ["http://127.0.0.1:9", "--sign", "off"])
    assert done.exit_code == 2
    assert "All connection attempts failed. Nothing else was checked" in done.stdout
