"""Requests of the console to a foreign server, and what it makes of the answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from aion_tools.inspector.remote import OtherServer, RemoteAgent
from tests.support.downgraded import downgraded
from tests.support.foreign import adk_server, odd_server, sdk_server
from tests.support.listening import listening
from tests.tools.unit.inspector.consoles import Console, console_on

SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "1.0": sdk_server,
    "0.3": partial(sdk_server, "0.3"),
    "1.0, HTTP+JSON": partial(sdk_server, binding="HTTP+JSON"),
}


@pytest.fixture(params=SERVERS)
def console(request: pytest.FixtureRequest) -> Iterator[Console]:
    with SERVERS[request.param]() as url, console_on(url) as console:
        yield console


def events(answer: Any) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def test_servers_of_each_version_and_binding_answer(console: Console) -> None:
    """Send, stream, ask, answer, read and cancel by JSON-RPC of A2A 1.0, whatever the server speaks."""
    assert console.send("say hi")["task"]["status"]["message"]["parts"] == [{"text": "hi!"}]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "say hello"}]}
    streamed = events(console.call("SendStreamingMessage", message=message))
    assert [each["id"] for each in streamed] == ["1"] * len(streamed)
    assert streamed[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    asked = console.send("ask")["task"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    answered = console.send("Rome", taskId=asked["id"], contextId=asked["contextId"])["task"]
    assert answered["status"]["message"]["parts"] == [{"text": "Heard Rome."}]
    read = console.call("GetTask", id=asked["id"]).json()["result"]
    assert read["status"] == answered["status"]
    waiting = console.send("ask twice")["task"]["id"]
    assert console.call("CancelTask", id=waiting).json()["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert console.call("GetTask", id="unknown").json()["error"]["code"] == -32001
    assert console.call("Guess").json()["error"]["code"] == -32601


def test_server_of_adk_answers() -> None:
    with adk_server() as url, console_on(url) as console:
        task = console.send("hello")["task"]
    assert [part["text"] for each in task["artifacts"] for part in each["parts"]] == ["ADK heard: hello"]


def test_server_gets_credentials_but_no_cookies() -> None:
    """Pass on the headers of the protocol and of credentials, and nothing else that a browser adds."""
    heard: list[Any] = []
    with sdk_server(heard=heard) as url, console_on(url) as console:
        given = {
            "Cookie": "session=1",
            "Origin": console.url,
            "X-Other": "1",
            "Authorization": "Bearer t",
            "X-API-Key": "k",
        }
        console.call("ListTasks", headers=given)
    [headers] = heard
    assert (headers["authorization"], headers["x-api-key"], headers["a2a-version"]) == ("Bearer t", "k", "1.0")
    assert not {"cookie", "origin", "x-other", "referer"} & headers.keys()


def card_for(url: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "odd",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        **more,
    }


FAR = "https://far.example/"


async def asked_of(card: dict[str, Any], **headers: str) -> list[httpx.Request]:
    """Return the requests that a server with this card gets for a request of the page with these headers."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=card)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}).encode()
        await RemoteAgent(FAR, http, lambda card: None).answer(body, headers)
    return asked


@pytest.mark.parametrize("spelled", [str.lower, str.upper, str.title])
@pytest.mark.parametrize("name", ["cookie", "origin", "sec-fetch-site", "content-length", "x-station"])
async def test_card_cannot_ask_for_headers_of_browser(name: str, spelled: Callable[[str], str]) -> None:
    """A hostile card names them for its API key. It gets only one that the page has set itself."""
    schemes = {"k": {"apiKeySecurityScheme": {"location": spelled("header"), "name": spelled(name)}}}
    _, call = await asked_of(card_for(FAR, securitySchemes=schemes), **{name: "secret"})
    assert ("secret" in call.headers.values()) == (name == "x-station")


@pytest.mark.parametrize("what", downgraded(FAR))
async def test_address_in_card_like_its_own_is_not_called(what: str) -> None:
    other = downgraded(FAR)[what]
    asked = await asked_of(card_for(other), authorization="Bearer secret")
    assert {(request.method, request.url.host) for request in asked} == {("GET", "far.example")}
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200)))
    RemoteAgent(FAR, client, lambda card: None)  # from now on, no request of the client leaves its origin
    async with client:
        with pytest.raises((OtherServer, httpx.HTTPError)):
            await client.get(other)


@pytest.mark.parametrize(
    ("card", "status", "reason"),
    [
        ({"name": 5}, 200, "It is no valid A2A: Failed to parse name field"),
        (b"<html>", 200, "It is no valid A2A: Expecting value"),
        (b"[" * 100_000, 200, "Its JSON has"),
        ({"description": "x" * 2_000_000}, 200, "It is larger than 1 MB"),
        ({}, 404, "agent-card.json and http"),
        ({}, 500, "agent-card.json answered with status 500"),
    ],
)
def test_unusable_card_is_explained(card: Any, status: int, reason: str) -> None:
    with odd_server(card, status) as url, console_on(url) as console:
        answer = console.card()
        assert (answer.status_code, reason in answer.json()["error"]["message"]) == (502, True), answer.text
        assert reason in console.send("hello")["message"]


def test_card_reaches_page_as_server_sends_it() -> None:
    card = card_for("http://example.com/", invented={"deep": [1, None]})
    with odd_server(card) as url, console_on(url) as console:
        assert console.card().json() == card


def test_only_server_at_given_url_is_called() -> None:
    """Neither a card's other server nor a redirect leads the console elsewhere."""
    called: list[str] = []

    def elsewhere(request: Request) -> Response:
        called.append(request.url.path)
        return Response("{}", media_type="application/json")

    with listening(Starlette(routes=[Route("/{path:path}", elsewhere, methods=["GET", "POST"])])) as other:
        with odd_server(card_for(f"{other}/rpc")) as url, console_on(url) as console:
            error = console.send("hello")
        assert f"sends messages to {other}/rpc, and this console calls only {url}" in error["message"]

        async def away(request: Request) -> Response:
            return RedirectResponse(f"{other}/card.json")

        with listening(Starlette(routes=[Route("/{path:path}", away)])) as url, console_on(url) as console:
            assert "answered with status 307" in console.card().json()["error"]["message"]
    assert called == []


@pytest.mark.parametrize(
    ("content", "status", "media_type", "code", "message"),
    [
        (b"Who are you?", 401, "text/plain", 401, "HTTP status 401 Unauthorized"),
        (b"<html>", 200, "text/html", 200, "no JSON"),
        (b'{"jsonrpc": "2.0", "error": {"code": -32001, "message": "No."}}', 404, "application/json", -32001, "No."),
        (b'{"a": "' + b"x" * 5_000_000 + b'"}', 200, "application/json", -32603, "The server's answer cannot be used."),
    ],
)
def test_odd_answer_becomes_error_of_json_rpc(
    content: bytes, status: int, media_type: str, code: int, message: str
) -> None:
    async def answer(request: Request) -> Response:
        if request.method == "POST":
            return Response(content, status, media_type=media_type)
        return Response(json.dumps(card_for(str(request.base_url))), media_type="application/json")

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with listening(app) as url, console_on(url) as console:
        error = console.send("hello")
    assert (error["code"], message in error["message"]) == (code, True), error


def test_unusable_event_ends_stream_with_error() -> None:
    async def answer(request: Request) -> Response:
        if request.method == "POST":
            return Response(
                b'data: {"result": {}}\n\ndata: {"a": "' + b"x" * 5_000_000 + b'"}\n\n', media_type="text/event-stream"
            )
        return Response(json.dumps(card_for(str(request.base_url))), media_type="application/json")

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with listening(app) as url, console_on(url) as console:
        first, last = events(console.call("SendStreamingMessage", message={}))
    assert first == {"result": {}}
    assert "The server's answer cannot be used." in last["error"]["message"]


def test_server_that_is_gone_is_named() -> None:
    with sdk_server() as url, console_on(url) as console:
        assert console.card().status_code == 200
        gone = url
    with console_on(gone) as console:
        assert f"The server at {gone} doesn't answer" in console.card().json()["error"]["message"]
        assert "The server doesn't answer" in console.send("hello")["message"]
