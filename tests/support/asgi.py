"""Calls an ASGI app in this process as a client over a socket would: the answer is there before the app has rested."""

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp, Message


async def post(app: ASGIApp, body: dict[str, Any], headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Return the status and the body of the answer; what the app does afterwards goes on."""
    given = {"content-type": "application/json", "host": "test", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "server": ("test", 80),
        "client": ("test", 1),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }
    unread = [json.dumps(body).encode()]
    answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
    status, received = 0, b""

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await asyncio.shield(answered)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, received
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            received += message.get("body", b"")
            if not message.get("more_body") and not answered.done():
                answered.set_result((status, received))

    call = asyncio.ensure_future(app(scope, receive, send))
    _calls.add(call)
    call.add_done_callback(_calls.discard)
    await asyncio.wait({call, answered}, return_when=asyncio.FIRST_COMPLETED)
    return await answered


async def ask(
    app: ASGIApp, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b""
) -> httpx.Response:
    """Return the answer to a request whose target reaches the app as it stands: no client has tidied it up."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        # As uvicorn does.
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "server": ("test", 80),
        "client": ("test", 1),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    unread = [body]
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    start: Message = {}
    received = b""

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await answered
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal start, received
        if message["type"] == "http.response.start":
            start = message
            return
        received += message.get("body", b"")
        if not message.get("more_body") and not answered.done():
            answered.set_result(None)

    await app(scope, receive, send)
    return httpx.Response(start["status"], headers=start["headers"], content=received)


_calls: set["asyncio.Future[None]"] = set()
