"""Remote agents by name: their cards, their credentials, and the origins that receive them."""

import base64
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, GetTaskRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from aion_core.bootstrap.remotes import build_remotes
from aion_core.delegation.card_client import MAX_CARDS
from aion_core.delegation.durable_call import is_transient
from aion_core.delegation.remotes import Remotes
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.reading import read_config_file
from aion_core.loading.aion_yaml.remotes import RemoteConfig
from tests.support.downgraded import downgraded
from tests.support.listening import free_port, listening
from tests.support.rows import each_row

SECRET = "user:an-expensive-secret"
SCHEMES: dict[str, tuple[dict[str, str], str, str]] = {
    "bearer": ({}, "authorization", f"Bearer {SECRET}"),
    "api_key": ({"header": "X-Weather-Key"}, "x-weather-key", SECRET),
    "basic": ({}, "authorization", f"Basic {base64.b64encode(SECRET.encode()).decode()}"),
}


class Recorded:
    """Server that records the headers of its requests. It has a card, and each task is unknown."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.interfaces = [self.url]
        self.redirects_to = ""
        self.seen: list[tuple[str, Mapping[str, str]]] = []

    async def card(self, request: Request) -> Response:
        self.seen.append((request.url.path, dict(request.headers)))
        if self.redirects_to:
            return RedirectResponse(self.redirects_to)
        interfaces = [
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0") for url in self.interfaces
        ]
        card = AgentCard(name="far", capabilities=AgentCapabilities(streaming=True), supported_interfaces=interfaces)
        return JSONResponse(MessageToDict(card))

    async def answer(self, request: Request) -> Response:
        self.seen.append((request.url.path, dict(request.headers)))
        if self.redirects_to:
            return RedirectResponse(self.redirects_to, 307)
        asked = await request.json()
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": {"id": "t"}})


@contextmanager
def recording() -> Iterator[Recorded]:
    port = free_port()
    server = Recorded(port)
    routes = [
        Route("/.well-known/agent-card.json", server.card),
        Route("/", server.answer, methods=["POST"]),
    ]
    with listening(Starlette(routes=routes), port=port):
        yield server


@pytest.fixture
def near() -> Iterator[Recorded]:
    with recording() as server:
        yield server


@pytest.fixture
def elsewhere() -> Iterator[Recorded]:
    with recording() as server:
        yield server


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_KEY", SECRET)


def remotes_of(url: str, **options: Any) -> Remotes:
    return build_remotes({"weather": RemoteConfig(url=url, **options)})


async def ask(remotes: Remotes, name: str = "weather") -> None:
    async with remotes.client(name) as client:
        await client.get_task(GetTaskRequest(id="t"))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_each_request_has_credentials(near: Recorded, scheme: str) -> None:
    options, header, expected = SCHEMES[scheme]
    await ask(remotes_of(near.url, scheme=scheme, secret="WEATHER_KEY", **options))
    assert [(path, headers[header]) for path, headers in near.seen] == [
        ("/.well-known/agent-card.json", expected),
        ("/", expected),
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_other_origin_in_card_gets_no_credentials(near: Recorded, elsewhere: Recorded, scheme: str) -> None:
    near.interfaces = [elsewhere.url]
    options, header, _ = SCHEMES[scheme]
    await ask(remotes_of(near.url, scheme=scheme, secret="WEATHER_KEY", **options))
    ((_, headers),) = elsewhere.seen
    assert header not in headers
    assert "an-expensive-secret" not in str(headers)


@each_row("what", downgraded("https://weather.example/"))
async def test_address_in_card_like_its_own_gets_nothing(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card names an address that looks like its own, alone and before its own. No request without TLS is sent."""
    own, other = "https://weather.example/", downgraded("https://weather.example/")[what]
    interfaces, seen = list[AgentInterface](), list[httpx.Request]()

    async def answer(_: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.method == "POST":
            asked = json.loads(request.content)
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": asked["id"], "result": {"id": "t"}})
        return httpx.Response(200, json=MessageToDict(AgentCard(name="far", supported_interfaces=interfaces)))

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    for urls in ([other], [other, own]):
        interfaces[:] = [AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0") for url in urls]
        with nullcontext() if own in urls else suppress(A2AError):
            await ask(remotes_of(own, scheme="bearer", secret="WEATHER_KEY"))
    with_secret = [str(request.url) for request in seen if SECRET in str(request.headers.multi_items())]
    assert with_secret == [f"{own}.well-known/agent-card.json"] * 2 + [own]
    assert {request.url.scheme for request in seen} == {"https"}


async def test_own_origin_in_card_is_preferred(near: Recorded, elsewhere: Recorded) -> None:
    near.interfaces = [elsewhere.url, near.url]
    await ask(remotes_of(near.url, scheme="bearer", secret="WEATHER_KEY"))
    assert not elsewhere.seen


@pytest.mark.parametrize("redirects_card", [True, False], ids=["card", "request"])
async def test_redirect_is_not_followed(near: Recorded, elsewhere: Recorded, redirects_card: bool) -> None:
    remotes = remotes_of(near.url, scheme="bearer", secret="WEATHER_KEY")
    if not redirects_card:
        await ask(remotes)
    near.redirects_to = elsewhere.url
    with pytest.raises(A2AError) as raised:
        await ask(remotes)
    assert not is_transient(raised.value)
    assert not elsewhere.seen


async def test_card_is_read_once(near: Recorded) -> None:
    remotes = remotes_of(near.url)
    for _ in range(2):
        await ask(remotes)
    assert [path for path, _ in near.seen] == ["/.well-known/agent-card.json", "/", "/"]


async def test_cards_of_many_urls_are_not_all_kept(near: Recorded) -> None:
    remotes = Remotes()
    for number in range(MAX_CARDS + 1):
        async with remotes.client(f"{near.url}/.well-known/agent-card.json?{number}") as client:
            await client.card()
    near.seen.clear()
    for number in (MAX_CARDS, 1, 0):
        async with remotes.client(f"{near.url}/.well-known/agent-card.json?{number}") as client:
            await client.card()
    assert len(near.seen) == 1, "only the oldest card is read again"


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/.well-known/agent-card.json"])
async def test_url_is_of_agent_or_card(near: Recorded, form: str) -> None:
    await ask(Remotes(), form.format(near.url))
    assert len(near.seen) == 2


async def test_secret_is_neither_in_log_nor_in_error(
    near: Recorded, elsewhere: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    near.redirects_to = elsewhere.url
    with caplog.at_level(logging.DEBUG), pytest.raises(A2AError) as raised:
        await ask(remotes_of(near.url, scheme="bearer", secret="WEATHER_KEY"))
    assert "an-expensive-secret" not in caplog.text + repr(raised.value)


async def test_variable_in_url_is_read_at_call(near: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    remotes = remotes_of("${WEATHER_URL}")
    with pytest.raises(ConfigurationError, match="WEATHER_URL, which has no value"):
        await ask(remotes)
    monkeypatch.setenv("WEATHER_URL", near.url.removeprefix("http://"))
    with pytest.raises(ConfigurationError, match="'weather' does not begin with https"):
        await ask(remotes)
    monkeypatch.setenv("WEATHER_URL", near.url)
    await ask(remotes)


def test_url_in_code_reads_no_variable() -> None:
    """A model may have chosen the URL."""
    url = "http://attacker.example/${WEATHER_KEY}"
    assert Remotes().resolve(url).address() == url


async def test_missing_secret_is_named(near: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEATHER_KEY")
    with pytest.raises(ConfigurationError, match=r"secret of the remote 'weather' needs the variable WEATHER_KEY"):
        await ask(remotes_of(near.url, scheme="bearer", secret="WEATHER_KEY"))
    assert not near.seen


def test_unknown_name_is_explained() -> None:
    with pytest.raises(ConfigurationError, match=r"no remote agent 'wether'\. It has weather"):
        remotes_of("https://weather.example").resolve("wether")


@each_row(
    ("lines", "mistake"),
    [
        ("{url: weather}", "remotes.weather.url is 'weather': it has to be an http or https URL"),
        ("{url: 'https://me:secret@weather.example'}", "has a user or password in it"),
        ("{url: 'https://weather.example', scheme: bearer}", "scheme bearer needs `secret`"),
        ("{url: 'https://weather.example', secret: KEY}", "`secret` needs a `scheme`"),
        ("{url: 'https://weather.example', header: X-Key}", "`header` has no effect without scheme: api_key"),
        (
            "{url: 'https://weather.example', scheme: bearer, secret: KEY}",
            "KEY, which is not a variable under `secrets`",
        ),
        ("{url: 'https://weather.example', scheme: digest}", "remotes.weather.scheme"),
        ("{url: 'https://weather.example', callback: 1}", "remotes.weather.callback: it has to be on or off"),
    ],
)
def test_mistakes_of_remotes_are_explained(tmp_path: Path, lines: str, mistake: str) -> None:
    path = tmp_path / "aion.yaml"
    path.write_text(f"aion:\n  remotes:\n    weather: {lines}\n  agents:\n    a: {{path: agent.py}}\n")
    with pytest.raises(ConfigurationError) as raised:
        read_config_file(path)
    assert mistake in str(raised.value)
