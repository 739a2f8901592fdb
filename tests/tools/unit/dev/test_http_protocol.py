"""Time limits of the development server's connections, on real sockets with a short limit."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from aion_tools.dev.http_protocol import HeaderTimeoutProtocol, stop_accepting
from tests.support.clock import LoopClock


class ImpatientProtocol(HeaderTimeoutProtocol):
    """HeaderTimeoutProtocol with time limits short enough for a test."""

    header_seconds = last_seconds = 0.2


class PatientProtocol(HeaderTimeoutProtocol):
    """HeaderTimeoutProtocol with time limits that no test reaches."""

    header_seconds = last_seconds = 3600.0


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with the length of the body. Refuse it unread at /refused. Wait for the test at /slow.

    At /place, respond with the URL.
    """
    request = Request(scope, receive)
    if request.url.path.startswith("/place"):
        await PlainTextResponse(str(request.url))(scope, receive, send)
        return
    if request.url.path == "/slow":
        begun.set()
        await continued.wait()
    text = "refused" if request.url.path == "/refused" else str(len(await request.body()))
    await PlainTextResponse(text)(scope, receive, send)


begun, continued = asyncio.Event(), asyncio.Event()


@asynccontextmanager
async def connected(http: type[HeaderTimeoutProtocol] = ImpatientProtocol) -> AsyncIterator[Connection]:
    """Serve the app and connect to its server."""
    async with serving(http) as port, connection(port) as connected:
        yield connected


@asynccontextmanager
async def serving(http: type[HeaderTimeoutProtocol] = ImpatientProtocol) -> AsyncIterator[int]:
    """Serve the app and yield the port."""
    async with running(http) as server:
        yield port_of(server)


@asynccontextmanager
async def running(http: type[HeaderTimeoutProtocol]) -> AsyncIterator[uvicorn.Server]:
    """Serve the app and yield the server."""
    config = uvicorn.Config(app, port=0, http=http, lifespan="off", log_config=None, timeout_keep_alive=3600)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server
    finally:
        await server.shutdown()


def port_of(server: uvicorn.Server) -> int:
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[Connection]:
    """Yield a connection to the port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a header byte by byte, without end."""
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("begin", [b"", b"POST / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_connection_with_unfinished_headers_is_closed_after_time_limit(begin: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(begin)
        assert await reader.read() == b""


async def test_connection_with_slow_headers_is_closed_after_time_limit() -> None:
    """Send headers byte by byte: each byte restarts uvicorn's time limit, but not that of HeaderTimeoutProtocol."""
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        dripping = asyncio.create_task(drip(writer))
        # Ignore the error if the next byte was sent after the server had closed the connection.
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        dripping.cancel()
        await asyncio.wait([dripping])


async def test_connection_with_unread_body_is_closed_after_response(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_clock = LoopClock(monkeypatch)
    async with connected(PatientProtocol) as (reader, writer):
        writer.write(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12")
        await reader.readuntil(b"refused")
        loop_clock.move(PatientProtocol.header_seconds)
        assert await reader.read() == b""


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("/place?a=b", "http://other.test/place?a=b"),
        ("http://here.test:80/place/a%20b?a=http://x/", "http://here.test:80/place/a b?a=http://x/"),
        ("HTTP://here.test/place", "http://here.test/place"),
    ],
)
async def test_absolute_url_is_accepted_as_request_target(target: str, url: str) -> None:
    """Send a whole URL as target: its host replaces the Host header (RFC 9112, 3.2.2)."""
    async with connected(PatientProtocol) as (reader, writer):
        writer.write(f"GET {target} HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).decode().rpartition("\r\n\r\n")[2] == url


async def test_url_without_path_as_request_target_means_root() -> None:
    async with connected(PatientProtocol) as (reader, writer):
        writer.write(b"GET http://here.test HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_slow_response_is_not_cut_by_idle_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow answer outlasts the time limit and still arrives; an idle connection is closed meanwhile."""
    loop_clock = LoopClock(monkeypatch)
    begun.clear()
    continued.clear()
    async with serving(PatientProtocol) as port, connection(port) as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        async with connection(port) as (idle, idle_writer):
            idle_writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await idle.readuntil(b"\r\n\r\n0")
            loop_clock.move(PatientProtocol.header_seconds)
            assert await idle.read() == b""
        continued.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


@asynccontextmanager
async def stopping(http: type[HeaderTimeoutProtocol]) -> AsyncIterator[Connection]:
    """Yield a connection without a request, to a server that has begun to stop."""
    async with running(http) as server, connection(port_of(server)) as connected:
        while not server.server_state.connections:
            await asyncio.sleep(0)
        ends = asyncio.create_task(server.shutdown())
        await asyncio.sleep(0)
        yield connected
        await ends


async def test_stopping_server_answers_request_on_open_connection() -> None:
    async with stopping(PatientProtocol) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200")


async def test_stopping_server_answers_next_request_of_client() -> None:
    """Send a second request just before the server's stop: the server has not read it yet."""
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with running(PatientProtocol) as server, connection(port_of(server)) as (reader, writer):
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n0")
        writer.write(request)
        ends = asyncio.create_task(server.shutdown())
        answer = await reader.read()
        await ends
    assert answer.startswith(b"HTTP/1.1 200")


async def test_stopping_server_answers_connection_that_it_just_accepted() -> None:
    """Stop after the operating system's accept, and before asyncio creates the connection's transport."""
    async with running(PatientProtocol) as server:
        with socket.create_connection(("127.0.0.1", port_of(server)), timeout=60) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            # This coroutine continues before the event loop accepts the connection, in the same iteration of the loop.
            await asyncio.sleep(0)
            await asyncio.create_task(stop_accepting(server))
            answer = await asyncio.to_thread(client.recv, 4096)
    assert answer.startswith(b"HTTP/1.1 200")


async def test_stopping_server_soon_closes_idle_connection() -> None:
    """Close a connection with an answered request earlier than an unused one: its client connects to the next server."""
    async with running(PatientProtocol) as server, connection(port_of(server)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n0")
        async with asyncio.timeout(60):
            await server.shutdown()
            assert await reader.read() == b""


async def test_stopping_server_closes_unused_connection() -> None:
    async with stopping(ImpatientProtocol) as (reader, _):
        assert await reader.read() == b""


async def test_connection_stays_open_after_refused_large_body() -> None:
    body = 300_000
    async with connected(PatientProtocol) as (reader, writer):
        writer.write(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % body)
        assert (await reader.readuntil(b"refused")).startswith(b"HTTP/1.1 200")
        writer.write(b"x" * body)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_http2_upgrade_request_is_answered_in_http1(caplog: pytest.LogCaptureFixture) -> None:
    """Offer HTTP/2 as Java's client does with its first request: the server answers in HTTP/1.1."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    async with connected(PatientProtocol) as (reader, writer):
        for headers in (offer, b""):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + headers + b"Content-Length: 3\r\n\r\n")
            await writer.drain()
            writer.write(b"123")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(1) == b"3"
    assert caplog.messages == []
