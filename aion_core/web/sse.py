"""Writes a stream: (id, event) pairs as Server-Sent Events, in either dialect, many to a write.

The SDK's own writer sends no ids and costs more than the rest of the path together; here an event is rendered by the
ordinary encoder, and a chunk by a frame that was rendered once and split where its text belongs.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3.types import SendStreamingMessageSuccessResponse
from a2a.compat.v0_3.types import TaskStatusUpdateEvent as TaskStatusUpdateEvent03
from google.protobuf.json_format import MessageToDict
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aion_core.ports import Delta
from aion_core.protocol.types import Event, Task, TaskStatusUpdateEvent, stream_response
from aion_core.tasks import lifecycle
from aion_core.tasks.broadcast import Resumed, StreamItem
from aion_core.web.errors import error_body, rest_error_body
from aion_core.web.request_handler import as_event

RequestId = str | int | None
Encode = Callable[[Event], str]
"""An event as the JSON text of one SSE `data` field."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one version writes a stream in one binding."""

    encode: Encode
    refuse: Callable[[Exception], dict[str, Any]]
    """The error that ends a stream early, as the JSON of its frame."""


HEARTBEAT_SECONDS = 15.0
"""A stream that says nothing sends a comment this often: fronts cut what is silent."""

COMMENT = ": \n\n"
"""What a client reads past."""

_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""No line ends in SSE, yet clients that read lines with `str.splitlines` take them for such; JSON may escape them."""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def jsonrpc_v1(request_id: RequestId) -> Dialect:
    """Return how v1.0 writes a stream as the answers to a JSON-RPC request."""

    def encode(event: Event) -> str:
        return _json({"result": _wrapped(event), "id": request_id, "jsonrpc": "2.0"})

    return Dialect(encode, lambda error: error_body(request_id, error))


def jsonrpc_v03(request_id: RequestId) -> Dialect:
    """Return how v0.3 does: the events are flat, told apart by `kind` (R29-R31)."""

    def encode(event: Event) -> str:
        response = v03_event(event)
        response.id = request_id
        return response.model_dump_json(by_alias=True, exclude_none=True)

    return Dialect(encode, lambda error: error_body(request_id, error))


REST_V1 = Dialect(lambda event: _json(_wrapped(event)), rest_error_body)
"""How v1.0's REST binding writes a stream: each frame is a StreamResponse (spec 11.7)."""


def v03_event(event: Event) -> SendStreamingMessageSuccessResponse:
    """Return the event in v0.3's types; the last of a stream is final (R35), and a question is."""
    response = conversions.to_compat_stream_response(stream_response(event))
    if isinstance(response.result, TaskStatusUpdateEvent03):
        # The SDK says so of terminal states only.
        response.result.final = (
            isinstance(event, TaskStatusUpdateEvent) and event.status.state in lifecycle.TERMINAL_OR_INTERRUPTED
        )
    return response


def _wrapped(event: Event) -> dict[str, Any]:
    """Return the event in the wrapper of v1.0: exactly one of its members is set (R28)."""
    return MessageToDict(stream_response(event))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Frames:
    """Renders what is said, for one stream."""

    def __init__(self, dialect: Dialect) -> None:
        self._encode, self._refuse = dialect.encode, dialect.refuse
        self._task: Task | Resumed | None = None
        self._templates: dict[tuple[bool, bool, str], tuple[str, str]] = {}

    def render(self, batch: list[StreamItem]) -> bytes:
        """Return the frames of all that is said, in order; of nothing a comment, with which the answer's head leaves."""
        frames = "".join([self._frame(spoken) for spoken in batch]) or COMMENT
        if not frames.isascii():
            frames = frames.translate(_LINE_ENDS)
        # Half a surrogate pair, which a model may speak at the edge of a chunk, has no UTF-8.
        return frames.encode("utf-8", "replace")

    def error(self, error: Exception) -> bytes:
        """Return the frame that says why the stream ends early."""
        return f"event: error\ndata: {_json(self._refuse(error)).translate(_LINE_ENDS)}\n\n".encode("utf-8", "replace")

    def _frame(self, spoken: StreamItem) -> str:
        what = spoken.payload
        if isinstance(what, Delta):
            before, after = self._templates.get((what.append, what.last, what.reason)) or self._template(what)
            return f"id: {spoken.id}\n{before}{json.dumps(what.text, ensure_ascii=False)[1:-1]}{after}"
        if isinstance(what, Task | Resumed):
            self._task = what
        if isinstance(what, Resumed):
            return COMMENT
        data = f"data: {self._encode(what)}\n\n"
        # What has no place in the log has no id: a reader that comes back asks for what followed the last one.
        return f"id: {spoken.id}\n{data}" if spoken.id else data

    def _template(self, delta: Delta) -> tuple[str, str]:
        """Render a chunk like this one, and split it where its text belongs."""
        assert self._task is not None  # noqa: S101  # a stream begins with its task (R32), or where it was left
        # Unguessable: the context id and the request's id, which stand beside the text, are the client's choice.
        marker = token_hex(16)
        event = as_event(replace(delta, text=marker), self._task)
        before, after = self._encode(event).split(marker)
        template = (f"data: {before}", f"{after}\n\n")
        self._templates[delta.append, delta.last, delta.reason] = template
        return template


class EventStream(Response):
    """The answer to a streaming request: written as it comes, ended when the task rests or the client leaves."""

    def __init__(self, first: list[StreamItem], rest: AsyncGenerator[list[StreamItem], None], dialect: Dialect) -> None:
        """`first` is the batch already read, to learn whether the request is refused before a stream begins."""
        self._first, self._rest, self._frames = first, rest, Frames(dialect)
        self.status_code = 200
        self.background = None
        self.raw_headers = list(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        one_at_a_time = asyncio.Lock()
        last_written = asyncio.get_running_loop().time()

        async def write(body: bytes) -> None:
            nonlocal last_written
            async with one_at_a_time:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            last_written = asyncio.get_running_loop().time()

        async def keep_alive() -> None:
            while True:
                silent = asyncio.get_running_loop().time() - last_written
                if silent >= HEARTBEAT_SECONDS:
                    await write(COMMENT.encode())
                else:
                    await asyncio.sleep(HEARTBEAT_SECONDS - silent)

        async def left() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        writing = asyncio.create_task(self._write_all(write))
        beside = [asyncio.create_task(keep_alive()), asyncio.create_task(left())]
        try:
            await asyncio.wait({writing, beside[1]}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, *beside):
                task.cancel()
            await asyncio.gather(writing, *beside, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write_all(self, write: Callable[[bytes], Any]) -> None:
        async with aclosing(self._rest) as rest:
            try:
                await write(self._frames.render(self._first))
                async for batch in rest:
                    await write(self._frames.render(batch))
            except Exception as error:  # the outermost edge: the frame says what it was, and logs it
                await write(self._frames.error(error))
