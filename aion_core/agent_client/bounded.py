"""Limits for the answers that an HTTP client reads: bytes, time, levels and values.

They apply to any client, also to one that an author has made, because they are hooks of httpx's client. They see each
answer before anything of it is read, and put a checked stream in the place of its own.
"""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from msgspec import Struct

from aion_core.agent_client.json_size import excess_of, in_ascii
from aion_core.agent_client.limits import (
    MAX_DOCUMENT_BYTES,
    MAX_DOCUMENT_VALUES,
    MAX_HEARTBEAT_BYTES,
    MAX_VALUES,
    MEGABYTE,
    AnswerLimits,
)

PIECE_SECONDS = 60.0
"""Time limit for the body of an answer, or for an event of a stream, from its first byte to its last. A stream may last
as long as it likes: its heartbeats are events too."""

_BETWEEN_EVENTS = re.compile(rb"\r?\n\r?\n|\r\r")


class UnusableAnswer(A2AClientError):
    """Error: an answer of another agent cannot be used, and would not be better at another attempt.

    The text has the answer as its subject: "It is larger than 16 MB."
    """


def is_connection_error(error: BaseException | None) -> bool:
    """Return True for a failed connection, and False for a request that httpx itself refuses to send."""
    refused = (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.TooManyRedirects)
    return isinstance(error, httpx.RequestError) and not isinstance(error, refused)


def bounded(client: httpx.AsyncClient, limits: AnswerLimits) -> httpx.AsyncClient:
    """Add the limits to the client, and return it. A client that has limits stays as it is.

    Its requests raise UnusableAnswer, and A2AClientTimeoutError, also while an answer is read. Answers must not be
    compressed, because a small text can be gigabytes when it is unpacked.
    """
    hooks = client.event_hooks
    if not any(isinstance(hook, _Limit) for hook in hooks["response"]):
        client.event_hooks = {
            "request": [*hooks["request"], _ask_for_identity],
            "response": [_Limit(limits), *hooks["response"]],
        }
    return client


async def _ask_for_identity(request: httpx.Request) -> None:
    request.headers["Accept-Encoding"] = "identity"


class _Limit(Struct, frozen=True):
    """Hook of a client that puts a checked stream in the place of each response's own."""

    limits: AnswerLimits

    async def __call__(self, response: httpx.Response) -> None:
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            raise UnusableAnswer("It is compressed, although the request does not permit it.")
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # as httpx documents
        if response.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
            response.stream = _Events(response.stream, self.limits)
        else:
            is_document = response.request.method == "GET" and response.request.url.path.endswith(".json")
            response.stream = _Whole(response.stream, None if is_document else self.limits)


class _Whole(httpx.AsyncByteStream):
    """Body of an answer, or without limits of a document, that is passed on whole, after its checks."""

    def __init__(self, stream: httpx.AsyncByteStream, limits: AnswerLimits | None) -> None:
        self._stream, self._limits = stream, limits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Collect into one array, because a body in chunks of a byte each would be a list of millions of objects.
        collected, most = bytearray(), self._limits.answer if self._limits is not None else MAX_DOCUMENT_BYTES
        try:
            async with asyncio.timeout(PIECE_SECONDS):
                async for chunk in self._stream:
                    collected += chunk
                    _check_size(len(collected), most)
        except TimeoutError:
            raise A2AClientTimeoutError(f"It takes longer than {PIECE_SECONDS:.0f} s.") from None
        body = bytes(collected)
        del collected
        if body.lstrip()[:1] in (b"{", b"["):
            if self._limits is not None:
                _check_json(body, self._limits.text)
            else:
                _check_json(body, MAX_DOCUMENT_BYTES, MAX_DOCUMENT_VALUES)
            body = _compact(body)
        yield body

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Events(httpx.AsyncByteStream):
    """Body of an event stream. Each event is passed on whole, after its checks."""

    def __init__(self, stream: httpx.AsyncByteStream, limits: AnswerLimits) -> None:
        self._stream, self._limits = stream, limits
        self._heartbeats = 0
        """Size of the events without data so far."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        chunks = aiter(self._stream)
        begun, until = bytearray(), 0.0
        while True:
            try:
                async with asyncio.timeout_at(until if begun else None):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise A2AClientTimeoutError(f"An event of it takes longer than {PIECE_SECONDS:.0f} s.") from None
            if chunk is None:
                return  # what is left is no event, as no empty line follows it
            if not begun:
                until = clock() + PIECE_SECONDS
            searched = max(0, len(begun) - 3)
            begun += chunk
            while end := _end_of_event(begun, searched):
                event = bytes(memoryview(begun)[:end])
                begun = begun[end:]
                searched, until = 0, clock() + PIECE_SECONDS
                event = self._checked(event)
                if len(event) > MEGABYTE:
                    # Let go of a large event before its last piece, because the reader has a copy by then; and let the
                    # reader pass its line on before the empty line follows.
                    while len(event) > MEGABYTE:
                        yield event[:MEGABYTE]
                        event = event[MEGABYTE:]
                    yield event[:-1]
                    event = event[-1:]
                yield event
            _check_size(len(begun), self._limits.answer)

    def _checked(self, event: bytes) -> bytes:
        _check_size(len(event), self._limits.answer)
        data = b"\n".join([line[5:] for line in event.splitlines() if line.startswith(b"data:")])
        if not data:
            self._heartbeats += len(event)
            if self._heartbeats > MAX_HEARTBEAT_BYTES:
                raise UnusableAnswer(f"It has more than {MAX_HEARTBEAT_BYTES // MEGABYTE} MB of heartbeats.")
        _check_json(data, self._limits.text)
        return _compact(event)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _end_of_event(begun: bytearray, searched: int) -> int:
    """Return the size of the first event, or 0 if its end is missing. `searched` is where to look for the end."""
    found = _BETWEEN_EVENTS.search(begun, searched)
    return found.end() if found is not None else 0


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise UnusableAnswer(f"It is larger than {most // MEGABYTE} MB.")


def _check_json(text: bytes, most_text: int, most_values: int = MAX_VALUES) -> None:
    if excess := excess_of(text, most_text=most_text, most_values=most_values):
        raise UnusableAnswer(f"Its JSON has {excess}.")


def _compact(text: bytes) -> bytes:
    """Return a JSON text, or an event with it, in the form that needs the least memory when it is decoded, if it is large.

    Raises UnusableAnswer if it is no UTF-8: httpx would replace what it cannot decode.
    """
    if len(text) > MEGABYTE:
        text = text.replace(b"data: {", b"data:{", 1)  # the SDK's client would copy the text to remove the space
    if text.isascii():
        return text
    try:
        if len(text) > MEGABYTE:
            return in_ascii(text)
        text.decode()
    except UnicodeDecodeError as error:
        raise UnusableAnswer("It is not UTF-8.") from error
    return text
