"""Small HTTP client with little overhead of its own, so that the measured times are the server's."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

Body = dict[str, Any]


def request(text: str, *, streaming: bool, version: str = "1.0", context: str = "") -> Body:
    """Return the JSON-RPC request of a new message, in protocol version 1.0 or 0.3."""
    message: Body = {"messageId": str(uuid4()), **({"contextId": context} if context else {})}
    if version == "1.0":
        method = "SendStreamingMessage" if streaming else "SendMessage"
        message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
    else:
        method = "message/stream" if streaming else "message/send"
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


@dataclass
class Streamed:
    """Measurements of a received stream: seconds until its first artifact update, bytes, number of updates."""

    first: float = 0.0
    size: int = 0
    updates: int = 0


class Connection:
    """HTTP/1.1 connection to a server, used for several requests."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def send(self, body: Body) -> Body:
        """Send the request and return the JSON response. Raises RuntimeError for an error response."""
        content = b"".join([piece async for piece in self._response(body)])
        answer: Body = json.loads(content)
        if "error" in answer:
            raise RuntimeError(content.decode())
        return answer

    async def stream(self, body: Body) -> Streamed:
        """Send the request and read the stream to its end."""
        began, streamed, rest = time.perf_counter(), Streamed(), b""
        async for piece in self._response(body):
            streamed.size += len(piece)
            *events, rest = (rest + piece.replace(b"\r", b"")).split(b"\n\n")
            updates = sum(b'"artifactUpdate"' in event or b'"artifact-update"' in event for event in events)
            if updates and not streamed.updates:
                streamed.first = time.perf_counter() - began
            streamed.updates += updates
            if any(b'"error":{' in event for event in events):
                raise RuntimeError(events[-1].decode())
        return streamed

    async def _response(self, body: Body) -> AsyncIterator[bytes]:
        content = json.dumps(body).encode()
        version = "0.3" if "/" in body["method"] else "1.0"
        self._writer.write(
            f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            f"A2A-Version: {version}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(head.decode() + (await self._reader.read(4000)).decode())
        if b"transfer-encoding: chunked" not in head:
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            yield await self._reader.readexactly(length)
            return
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readuntil(b"\r\n")
