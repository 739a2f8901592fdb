"""Time limits of the development server's connections, on real sockets with a short limit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from aion_core.dev.http_protocol import HeaderTimeoutProtocol

pytestmark = pytest.mark.timeout(60)


class ImpatientProtocol(HeaderTimeoutProtocol):
    """Protocol with a limit short enough for a test."""

    header_seconds = 0.2


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Return the length of the body, or refuse it unread at the path /refused."""
    request = Request(scope, receive)
    text = "refused" if request.url.path == "/refused" else str(len(await request.body()))
    await PlainTextResponse(text)(scope, receive, send)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a server of the app."""
    config = uvicorn.Config(app, port=0, http=ImpatientProtocol, lifespan="off", log_config=None, timeout_keep_alive=30)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.servers[0].sockets[0].getsockname()[1])
    try:
        yield reader, writer
    finally:
        writer.close()
        await server.shutdown()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte of a header again and again."""
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("begin", [b"", b"POST / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_unfinished_headers_close_connection(begin: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(begin)
        assert await reader.read() == b""


async def test_dripping_headers_close_connection() -> None:
    """Each byte restarts uvicorn's own time limit, but not this one."""
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        dripping = asyncio.create_task(drip(writer))
        # The next byte may have arrived at the closed connection.
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        dripping.cancel()
        await asyncio.wait([dripping])


async def test_unread_body_closes_connection_after_response() -> None:
    async with connected() as (reader, writer):
        writer.write(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12")
        assert (await reader.read()).endswith(b"refused")


async def test_whole_requests_keep_connection() -> None:
    """Headers and bodies in pieces are accepted, on one connection."""
    async with connected() as (reader, writer):
        for pieces in (
            [b"POST / HTTP/1.1\r\nHost: x\r\n", b"Content-Length: 3\r\n\r\n", b"123"],
            [b"GET / HTTP/1.1\r\n", b"Host: x\r\n\r\n"],
        ):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            headers = await reader.readuntil(b"\r\n\r\n")
            assert headers.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(1) == str(3 if len(pieces) == 3 else 0).encode()
