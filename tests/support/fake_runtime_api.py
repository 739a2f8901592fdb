"""Lambda's Runtime API on loopback: a real HTTP server, fed and observed by a test.

    async with FakeRuntimeApi() as api:
        # start a runtime with AWS_LAMBDA_RUNTIME_API=api.address, then
        invocation = api.invoke(event)
        first = await invocation.chunk(1)      # returns at its arrival, while the response still streams
        answer = await invocation.answered()   # the whole of it, chunk by chunk, with its trailers

`journal` has all events in order.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import h11

TIMEOUT = 60.0
ARN = "arn:aws:lambda:eu-west-1:123456789012:function:agent-api:live"
DELIMITER = bytes(8)


@dataclass
class RuntimeApiAnswer:
    """Response of the runtime to an invocation, as far as it has arrived."""

    endpoint: str
    headers: dict[str, str]
    chunks: list[bytes] = field(default_factory=list)
    trailers: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    @property
    def raw(self) -> bytes:
        """Return all posted bytes."""
        return b"".join(self.chunks)

    @property
    def prelude(self) -> dict[str, Any]:
        """Return status, headers and cookies of a streamed response."""
        prelude: dict[str, Any] = json.loads(self.raw.split(DELIMITER, 1)[0])
        return prelude

    @property
    def status(self) -> int:
        """Return the HTTP status for the client."""
        return int(self.prelude["statusCode"])

    @property
    def body(self) -> bytes:
        """Return the body for the client."""
        return self.raw.split(DELIMITER, 1)[1]

    @property
    def error(self) -> dict[str, Any]:
        """Return the error from an error endpoint, or from the end of a stream."""
        in_trailers = self.trailers.get("lambda-runtime-function-error-body")
        error: dict[str, Any] = json.loads(base64.b64decode(in_trailers) if in_trailers else self.raw)
        return error


class FakeInvocation:
    """Invocation queued by the test."""

    def __init__(
        self, api: "FakeRuntimeApi", request_id: str, payload: bytes, headers: dict[str, str], deadline_in: float
    ) -> None:
        self.request_id = request_id
        self.payload = payload
        self._headers = headers
        self._deadline_in = deadline_in
        self.answer: RuntimeApiAnswer | None = None
        self._api = api
        self._reading = asyncio.Event()
        self._reading.set()
        self.received = 0
        """Number of received bytes of the response."""
        self._allowed: int | None = None
        self._connection: asyncio.StreamWriter | None = None

    @property
    def is_answered(self) -> bool:
        """Return True if the runtime has posted a complete response."""
        return self.answer is not None and self.answer.complete

    async def chunk(self, number: int) -> bytes:
        """Wait for the chunk of this number; chunk 0 is the prelude."""
        await self._api.until(lambda: self.answer is not None and len(self.answer.chunks) > number)
        assert self.answer is not None
        return self.answer.chunks[number]

    async def answered(self) -> RuntimeApiAnswer:
        """Wait for the end of the response."""
        await self._api.until(lambda: self.is_answered)
        assert self.answer is not None
        return self.answer

    async def begun(self) -> None:
        """Wait for the start of the runtime's response."""
        await self._api.until(lambda: self.answer is not None)

    def headers(self) -> dict[str, str]:
        """Return the headers of this invocation in the response to `next`; its deadline counts from this call."""
        return {"Lambda-Runtime-Deadline-Ms": str(int((time.time() + self._deadline_in) * 1000))} | self._headers

    def hold(self) -> None:
        """Stop reading the response from the runtime, like a slow client."""
        self._reading.clear()

    def read_on(self) -> None:
        """Continue reading the response."""
        self._reading.set()

    def throttle(self, after: int) -> None:
        """Read this number of bytes at once, and the rest only after `allow`, like API Gateway after 10 MB."""
        self._allowed = after

    async def allow(self, size: int) -> None:
        """Read this number of further bytes, or the rest of the response."""
        assert self._allowed is not None, "it is not throttled"
        self._allowed += size
        self._reading.set()
        await self._api.until(lambda: not self._reading.is_set() or self.is_answered)

    def break_off(self) -> None:
        """Break the connection of the response."""
        assert self._connection is not None, "the runtime has not begun to answer"
        self._connection.transport.abort()

    async def receive(self, answer: RuntimeApiAnswer, body: "_Body", connection: asyncio.StreamWriter) -> None:
        """Receive the response from the runtime."""
        self.answer, self._connection = answer, connection
        await self._api.note(f"{self.request_id} {answer.endpoint}")
        partial = bytearray()
        async for event in body.events(self._reading):
            if isinstance(event, h11.EndOfMessage):
                answer.trailers = _readable(event.headers)
                answer.complete = True
                await self._api.note(f"{self.request_id} ended")
                return
            partial += event.data
            self.received += len(event.data)
            if self._allowed is not None and self.received >= self._allowed:
                self._reading.clear()
                await self._api.note(f"{self.request_id} throttled")
            # A body with a Content-Length has no HTTP chunks: count each received piece as a chunk.
            if event.chunk_end or "content-length" in answer.headers:
                answer.chunks.append(bytes(partial))
                partial.clear()
                await self._api.note(f"{self.request_id} chunk {len(answer.chunks) - 1}")


@dataclass(frozen=True)
class RawAnswer:
    """Response to the runtime's `next` that the test has prepared byte for byte."""

    status: int
    headers: dict[str, str]
    body: bytes


class FakeRuntimeApi:
    """Server of the Runtime API; the runtime needs its `address` as AWS_LAMBDA_RUNTIME_API."""

    def __init__(self, journal: list[str] | None = None, *, host: str = "127.0.0.1") -> None:
        self.journal = journal if journal is not None else []
        self._host = host
        self.init_error: RuntimeApiAnswer | None = None
        self.restore_error: RuntimeApiAnswer | None = None
        self._restored = asyncio.Event()
        # Number of the runtime's requests for an invocation.
        self.asked = 0
        self._queue: asyncio.Queue[FakeInvocation | RawAnswer] = asyncio.Queue()
        self._invocations: dict[str, FakeInvocation] = {}
        self._changed = asyncio.Condition()
        self._connections: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.transport.abort()

    def invoke(
        self,
        event: Any,
        *,
        payload: bytes | None = None,
        deadline_in: float = 900.0,
        headers: dict[str, str] | None = None,
    ) -> FakeInvocation:
        """Queue an event for the runtime's `next`; a `payload` replaces its JSON."""
        request_id = f"invocation-{len(self._invocations) + 1}"
        given = {
            "Lambda-Runtime-Aws-Request-Id": request_id,
            "Lambda-Runtime-Invoked-Function-Arn": ARN,
            "Lambda-Runtime-Trace-Id": f"Root=1-67e5d9a1-{request_id}",
            "Content-Type": "application/json",
        }
        payload = json.dumps(event).encode() if payload is None else payload
        invocation = FakeInvocation(self, request_id, payload, given | (headers or {}), deadline_in)
        self._invocations[request_id] = invocation
        self._queue.put_nowait(invocation)
        return invocation

    def answer_next(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Queue a response to `next` that is not an invocation."""
        self._queue.put_nowait(RawAnswer(status, headers or {}, body))

    async def requested(self, times: int) -> None:
        """Wait for this number of requests for an invocation."""
        await self.until(lambda: self.asked >= times)

    async def init_failed(self) -> RuntimeApiAnswer:
        """Wait for the runtime's report of a failed start."""
        await self.until(lambda: self.init_error is not None)
        assert self.init_error is not None
        return self.init_error

    def restore(self) -> None:
        """Answer `restore/next`, as Lambda does after it has restored the environment from its snapshot."""
        self._restored.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait for a condition; each arrival checks it again."""
        async with asyncio.timeout(TIMEOUT), self._changed:
            await self._changed.wait_for(happened)

    async def note(self, what: str) -> None:
        """Write to the journal and wake the waiting tests."""
        async with self._changed:
            self.journal.append(what)
            self._changed.notify_all()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            await self._serve(reader, writer)
        except (OSError, h11.RemoteProtocolError):
            await self.note("connection lost")
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = _Body(reader)
        request = await body.head()
        if request is None:
            return
        method, path = request.method.decode(), request.target.decode().removeprefix("/2018-06-01/runtime/")
        headers = _readable(request.headers)
        match [method, *path.split("/")]:
            case ["GET", "invocation", "next"]:
                await self._next(body, reader, writer)
            case ["GET", "restore", "next"]:
                await body.whole()
                await self.note("restore/next")
                await self._restored.wait()
                await _reply(body, writer, 200)
            case ["POST", "restore", "error"]:
                self.restore_error = RuntimeApiAnswer("restore/error", headers, [await body.whole()], complete=True)
                await self.note("restore/error")
                await _reply(body, writer, 202)
            case ["POST", "init", "error"]:
                answer = RuntimeApiAnswer("init/error", headers, [await body.whole()], complete=True)
                self.init_error = answer
                await self.note("init/error")
                await _reply(body, writer, 202)
            case ["POST", "invocation", request_id, "response" | "error" as endpoint]:
                invocation = self._invocations.get(request_id)
                # Refuse a response to an unknown invocation and a second response, as Lambda does.
                if invocation is None or invocation.answer is not None:
                    await self.note(f"{request_id} {endpoint} rejected")
                    await _reply(body, writer, 403)
                    return
                await invocation.receive(RuntimeApiAnswer(endpoint, headers), body, writer)
                await _reply(body, writer, 202, b'{"status":"OK"}')
            case _:
                await self.note(f"unknown {method} {path}")
                await _reply(body, writer, 404)

    async def _next(self, body: "_Body", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await body.whole()
        self.asked += 1
        await self.note("next")
        queued = asyncio.create_task(self._queue.get())
        gone = asyncio.create_task(reader.read(1))
        await asyncio.wait({queued, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not queued.done():
            # Keep the invocation for the runtime's next request, because the runtime has closed this connection.
            queued.cancel()
            return
        gone.cancel()
        match queued.result():
            case FakeInvocation() as invocation:
                await self.note(f"{invocation.request_id} given")
                await _reply(body, writer, 200, invocation.payload, invocation.headers())
            case RawAnswer(status, headers, raw):
                await _reply(body, writer, status, raw, headers)


class _Body:
    """Request that is still arriving."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.http = h11.Connection(h11.SERVER)
        self._reader = reader

    async def head(self) -> h11.Request | None:
        event = await self._event()
        return event if isinstance(event, h11.Request) else None

    async def whole(self) -> bytes:
        reading = asyncio.Event()
        reading.set()
        return b"".join([bytes(event.data) async for event in self.events(reading) if isinstance(event, h11.Data)])

    async def events(self, reading: asyncio.Event) -> AsyncIterator[h11.Data | h11.EndOfMessage]:
        while True:
            await reading.wait()
            event = await self._event()
            if not isinstance(event, h11.Data | h11.EndOfMessage):
                raise ConnectionError("the runtime broke off")
            yield event
            if isinstance(event, h11.EndOfMessage):
                return

    async def _event(self) -> h11.Event:
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                self.http.receive_data(await self._reader.read(64 * 1024))
            elif isinstance(event, h11.Event):
                return event
            else:
                raise ConnectionError("the runtime asks more than one thing on a connection")


async def _reply(
    body: _Body, writer: asyncio.StreamWriter, status: int, content: bytes = b"", headers: dict[str, str] | None = None
) -> None:
    given = [*(headers or {}).items(), ("Content-Length", str(len(content)))]
    writer.write(body.http.send(h11.Response(status_code=status, headers=given)) or b"")
    writer.write(body.http.send(h11.Data(data=content)) or b"")
    writer.write(body.http.send(h11.EndOfMessage()) or b"")
    await writer.drain()


def _readable(headers: Any) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}
