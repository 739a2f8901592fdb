"""Server-Sent Events of a task, with event ids, in the formats of both versions and bindings.

The SDK's writer sends no ids and is slow. This module renders the frame of a text chunk once as a template, then
inserts the text of each chunk. It writes the events of a batch together.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from secrets import token_hex
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aion_core.engine.records import Delta
from aion_core.engine.stream.broadcast import Resumed, ResumedText, StreamItem
from aion_core.protocol.message_json import to_json
from aion_core.protocol.stream_artifacts import chunk_event, delta_event
from aion_core.protocol.types import Event, Task, TaskArtifactUpdateEvent, stream_response
from aion_core.web.errors import (
    error_body,
    protocol_error,
    rest_error_body,
    retry_headers,
    rpc_status,
)

RequestId = str | int | None
Encode = Callable[[Event, bool], str]
"""Function from an event to the JSON text of its SSE `data` field; the flag is True if no recorded event follows."""


class StreamFormat(Struct, frozen=True):
    """Format of a stream's events and errors, for one version and one binding of A2A."""

    encode: Encode
    refuse: Callable[[Exception], dict[str, Any]]
    """Function from an error to the JSON of the stream's last frame. The stream ends early with this frame."""


KEEP_ALIVE_SECONDS = 15.0
"""Interval between comments in an idle stream. HTTP entry points such as API Gateway close idle connections."""

MAX_STREAM_BYTES = 180 * 1024 * 1024
"""Maximum size of a stream. It ends between two frames, and the client resumes it. Lambda's limit is 200 MB."""

COMMENT = ": \n"
"""Empty SSE comment, which clients ignore. No blank line follows it: after an `id`, the Python SDKs 0.3.0 to 0.3.22 would
take a blank line for an event without data, and fail to parse it as JSON.
"""

_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""JSON escapes for Unicode line separators. Some clients would wrongly split an SSE line at them."""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def jsonrpc_v1(request_id: RequestId) -> StreamFormat:
    """Return the stream format of v1.0's JSON-RPC binding. Each frame is a JSON-RPC response."""

    def encode(event: Event, is_last: bool) -> str:
        return json_text({"result": _wrapped(event), "id": request_id, "jsonrpc": "2.0"})

    return StreamFormat(encode, lambda error: error_body(request_id, error))


REST_V1 = StreamFormat(lambda event, is_last: json_text(_wrapped(event)), rest_error_body)
"""Stream format of v1.0's HTTP+JSON binding. Each frame is a StreamResponse (A2A 11.7)."""


def _wrapped(event: Event) -> Any:
    """Return the JSON of v1.0's StreamResponse that contains the event (A2A 3.2.3)."""
    return to_json(stream_response(event))


# `json.dumps` would make an encoder for each value.
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_text(value: Any) -> str:
    """Return a value as JSON without spaces. Characters beyond ASCII are not escaped."""
    return _encoded(value)


def as_event(delta: Delta, task: Task | Resumed) -> TaskArtifactUpdateEvent:
    """Convert a text chunk to an artifact update event of its task."""
    if delta.artifact_id:
        return chunk_event(
            delta.artifact_id,
            task_id=task.id,
            context_id=task.context_id,
            text=delta.text,
            append=delta.append,
            metadata=delta.speaker or {},
        )
    return delta_event(
        task_id=task.id,
        context_id=task.context_id,
        text=delta.text,
        append=delta.append,
        last=delta.last,
        reason=delta.reason,
        speaker=delta.speaker,
    )


class Frames:
    """Renderer of the SSE frames of one stream, for events and errors."""

    def __init__(self, stream_format: StreamFormat) -> None:
        self._encode, self._refuse = stream_format.encode, stream_format.refuse
        self._task: Task | Resumed | None = None
        self._templates: dict[tuple[str, bool, bool, str], tuple[str, str]] = {}

    def render(self, batch: list[StreamItem], last: StreamItem | None = None) -> bytes:
        """Return the SSE frames of a batch of events. Without frames return a comment, so that the headers are sent.

        `last` is the last of the recorded events and chunks; by default the last item of the batch.
        """
        last = last or (batch[-1] if batch else None)
        frames = "".join([self._frame(item, item is last) for item in batch]) or COMMENT
        if not frames.isascii():
            frames = frames.translate(_LINE_ENDS)
        # Replace lone surrogates, because UTF-8 cannot encode them, and a model may emit one at the edge of a chunk.
        return frames.encode("utf-8", "replace")

    def error(self, error: Exception) -> bytes:
        """Return the SSE frame for an error, the last frame of the stream."""
        data = json_text(self._refuse(error)).translate(_LINE_ENDS)
        return f"event: error\ndata: {data}\n\n".encode("utf-8", "replace")

    def _frame(self, item: StreamItem, is_last: bool) -> str:
        what = item.payload
        if isinstance(what, Delta):
            known = self._templates.get(_kind(what)) if not what.speaker else None
            before, after = known or self._template(what)
            return f"id: {item.id}\n{before}{_encoded(what.text)[1:-1]}{after}"
        if isinstance(what, ResumedText):
            return ""
        if isinstance(what, Task | Resumed):
            self._task = what
        if isinstance(what, Resumed):
            return COMMENT
        data = f"data: {self._encode(what, is_last)}\n\n"
        # Send no id with an event that is not stored, so that a client resumes after the last stored event.
        return f"id: {item.id}\n{data}" if item.id else data

    def _template(self, delta: Delta) -> tuple[str, str]:
        """Render a text chunk. Return the parts of its frame before and after the text, for reuse by later chunks."""
        assert self._task is not None  # noqa: S101  # a stream begins with its task, or resumes it
        # Use a random marker, because the client controls the context id and the request id in the same frame.
        marker = token_hex(16)
        event = as_event(replace(delta, text=marker), self._task)
        before, after = self._encode(event, False).split(marker)
        template = (f"data: {before}", f"{after}\n\n")
        if not delta.speaker:
            self._templates[_kind(delta)] = template
        return template


def _kind(delta: Delta) -> tuple[str, bool, bool, str]:
    """Return what chunks have in common if their frames differ in the text only."""
    return delta.artifact_id, delta.append, delta.last, delta.reason


def refused_stream(request_id: RequestId, error: Exception) -> Response:
    """Return the refusal of a streaming method in JSON-RPC as a stream with one frame."""
    error = protocol_error(error)
    headers = {"Cache-Control": "no-store", **(retry_headers(error) or {})}
    # Omit `event: error`, because the Python SDK would treat the stream as broken.
    body = Frames(jsonrpc_v1(request_id)).error(error).removeprefix(b"event: error\n")
    return Response(body, rpc_status(error), headers, "text/event-stream; charset=utf-8")


class EventStream(Response):
    """HTTP response with an SSE stream. It ends after the last event, or when the client disconnects."""

    def __init__(
        self, first: list[StreamItem], rest: AsyncGenerator[list[StreamItem], None], stream_format: StreamFormat
    ) -> None:
        """`first` is the first batch. The caller reads it in advance, because a refused request raises there."""
        self._first, self._rest, self._frames = first, rest, Frames(stream_format)
        self.status_code = 200
        self.background = None
        self.raw_headers = list(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the SSE stream. Send a comment after each idle interval."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        lock = asyncio.Lock()
        last_written = asyncio.get_running_loop().time()

        async def write(body: bytes) -> None:
            nonlocal last_written
            async with lock:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            last_written = asyncio.get_running_loop().time()

        async def keep_alive() -> None:
            while True:
                idle = asyncio.get_running_loop().time() - last_written
                if idle >= KEEP_ALIVE_SECONDS:
                    await write(COMMENT.encode())
                else:
                    await asyncio.sleep(KEEP_ALIVE_SECONDS - idle)

        async def disconnected() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        writing = asyncio.create_task(self._write_all(write))
        others = [asyncio.create_task(keep_alive()), asyncio.create_task(disconnected())]
        try:
            await asyncio.wait({writing, others[1]}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, *others):
                task.cancel()
            await asyncio.gather(writing, *others, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write_all(self, write: Callable[[bytes], Any]) -> None:
        written = 0
        async with aclosing(self._rest) as rest:
            try:
                batch: list[StreamItem] | None = self._first
                while batch is not None:
                    for frames in self._pieces(batch, MAX_STREAM_BYTES - written):
                        if written and written + len(frames) > MAX_STREAM_BYTES:
                            return
                        await write(frames)
                        written += len(frames)
                    batch = await anext(rest, None)
            except Exception as error:  # outermost handler: log an unexpected error and end the stream
                await write(self._frames.error(error))

    def _pieces(self, batch: list[StreamItem], size: int) -> Iterator[bytes]:
        """Yield the batch's frames together. If they are larger than `size`, yield them one by one."""
        frames = self._frames.render(batch)
        if len(frames) <= size or len(batch) < 2:
            yield frames
            return
        for item in batch:
            yield self._frames.render([item], batch[-1])
