"""In-process calls of an ASGI app: as over a socket, the response returns before the app has finished."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

import httpx
from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class AsgiAnswer:
    """Response of an app; the app may continue to run after it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def call(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    heard: Callable[[], None] = lambda: None,
) -> AsgiAnswer:
    """Return the response to a request; call `heard` after each received piece of a successful response's body."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "server": ("test", 80),
        "client": ("test", 1),
        "headers": [
            (name.lower().encode(), value.encode())
            for name, value in {"host": "test", "user-agent": "test", **(headers or {})}.items()
        ],
    }
    unread = [body]
    answered: asyncio.Future[AsgiAnswer] = asyncio.get_running_loop().create_future()
    start: Message = {}
    received: list[bytes] = []

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await asyncio.shield(answered)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        received.append(message.get("body", b""))
        if start["status"] == 200:
            heard()
        if not message.get("more_body") and not answered.done():
            told = {name.decode().lower(): value.decode() for name, value in start["headers"]}
            answered.set_result(AsgiAnswer(start["status"], told, b"".join(received)))

    running = asyncio.ensure_future(app(scope, receive, send))
    _calls.add(running)
    running.add_done_callback(_calls.discard)
    either: set[asyncio.Future[Any]] = {running, answered}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not answered.done():
        await running  # raises the app's error
    return await answered


async def post(app: ASGIApp, body: dict[str, Any], headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Return the status and the body of the response to a JSON-RPC request."""
    answer = await call(
        app, "POST", "/", json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})}
    )
    return answer.status, answer.body


async def ask(
    app: ASGIApp,
    method: str,
    target: str,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    heard: Callable[[], None] = lambda: None,
) -> httpx.Response:
    """Return the response to a request with exactly this target, which an HTTP client would normalise. See `call`."""
    answer = await call(app, method, target, body, headers, heard=heard)
    return httpx.Response(answer.status, headers=dict(answer.headers), content=answer.body)


_calls: set["asyncio.Future[None]"] = set()
