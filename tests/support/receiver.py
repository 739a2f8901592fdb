"""Webhook on loopback: a real server with a record of its requests, and with faulty responses on request."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from standardwebhooks import Webhook

TIMEOUT = 120
"""Longest wait in seconds; it expires only on a failure."""


@dataclass(frozen=True)
class ReceivedPost:
    """Posted request."""

    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """Return the header `webhook-id`, which identifies the event (Standard Webhooks)."""
        return self.headers["webhook-id"]

    def is_signed_by(self, secret: str) -> bool:
        """Return True if a receiver's library verifies the signature with this secret.

        The library's `verify` compares with the machine's time, but the sender's clock may be a ManualClock.
        """
        known: str | bytes = secret if secret.startswith("whsec_") else secret.encode()
        at = datetime.fromtimestamp(int(self.headers["webhook-timestamp"]), UTC)
        expected = Webhook(known).sign(self.id, at, self.body.decode())
        return expected in self.headers["webhook-signature"].split(" ")


Behaviour = Callable[[ReceivedPost, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Function that answers a request with any bytes at any time; the server then closes the connection."""


@dataclass
class WebhookReceiver:
    """Server with one behaviour for each request, in order; the last behaviour repeats."""

    behaviours: list[Behaviour]
    address: str = "127.0.0.1"
    port: int = 0
    connections: int = 0
    posts: list[ReceivedPost] = field(default_factory=list)
    closed_early: int = 0
    """Number of clients that left before the response."""

    def url(self, path: str = "/hook", *, host: str = "", scheme: str = "http") -> str:
        """Return the receiver's URL."""
        return f"{scheme}://{host or self.address}:{self.port}{path}"

    @property
    def ids(self) -> list[str]:
        """Return the ids of the requests, in order."""
        return [post.id for post in self.posts]

    async def heard(self, number: int) -> None:
        """Wait for this number of requests."""
        for _ in range(TIMEOUT * 100):
            if len(self.posts) >= number:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(self.posts)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.posts.append(ReceivedPost(line, headers, body))
            behaviour = self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]
            await behaviour(self.posts[-1], reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed_early += 1
        finally:
            writer.close()


@asynccontextmanager
async def receiving(
    *behaviours: Behaviour, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[WebhookReceiver]:
    """Yield a receiver on the given port, by default on a free one."""
    receiver = WebhookReceiver(list(behaviours) or [answers(200)], address)
    server = await asyncio.start_server(receiver._serve, address, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def answers(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """Return a behaviour that responds at once."""

    async def behave(_: ReceivedPost, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{said}\r\n".encode() + body)
        await writer.drain()

    return behave


async def dies(_: ReceivedPost, __: asyncio.StreamReader, ___: asyncio.StreamWriter) -> None:
    """Close the connection after reading the request, without a response."""


async def talks_nonsense(_: ReceivedPost, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond with bytes that are not HTTP."""
    writer.write(b"SSH-2.0-OpenSSH_9.7\r\n")
    await writer.drain()


def holds(release: asyncio.Event) -> Behaviour:
    """Return a behaviour that responds after `release` is set."""

    async def behave(post: ReceivedPost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await answers(200)(post, reader, writer)

    return behave


def drips(before: bytes, seconds: float) -> Behaviour:
    """Return a behaviour that sends `before` at once, then one byte at a time, forever."""

    async def behave(_: ReceivedPost, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(before)
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(seconds)

    return behave


def floods(before: bytes, megabytes: int, written: list[int]) -> Behaviour:
    """Return a behaviour that sends megabytes; `written` gets the number of bytes sent before the client closes."""

    async def behave(_: ReceivedPost, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        written.append(0)
        writer.write(before)
        chunk = b"x" * 65536
        try:
            for _n in range(megabytes * 16):
                writer.write(chunk)
                await writer.drain()
                written[-1] += len(chunk)
        except ConnectionError:
            return

    return behave


def redirects(status: int, to: str) -> Behaviour:
    """Return a behaviour that redirects the client."""
    return answers(status, Location=to)
