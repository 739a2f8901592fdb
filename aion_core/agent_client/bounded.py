"""Limits for the answers that an HTTP client reads: bytes, time, levels and values.

They apply to any client, also to one that an author has made, because they are hooks of httpx's client. They see each
answer before anything of it is read, and put a checked stream in the place of its own.
"""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
from a2a.client.errors import A2AClientError, A2AClientTimeoutError

from aion_core.agent_client.json_size import MEGABYTE, excess_of, in_ascii

MAX_DOCUMENT_BYTES = MEGABYTE
"""Maximum size of an agent's card, and of any other document whose path ends in .json."""

MAX_ANSWER_BYTES = 16 * MEGABYTE
"""Maximum size of an answer, and of an event in a stream."""

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


def bounded(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Add the limits to the client, and return it. A client that has them stays as it is.

    Its requests raise UnusableAnswer, and A2AClientTimeoutError, also while an answer is read. Answers must not be
    compressed, because a small text can be gigabytes when it is unpacked.
    """
    hooks = client.event_hooks
    if _limit not in hooks["response"]:
        client.event_hooks = {
            "request": [*hooks["request"], _ask_for_identity],
            "response": [_limit, *hooks["response"]],
        }
    return client


async def _ask_for_identity(request: httpx.Request) -> None:
    request.headers["Accept-Encoding"] = "identity"


async def _limit(response: httpx.Response) -> None:
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnusableAnswer("It is compressed, although the request does not permit it.")
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # as httpx documents
    if response.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
        response.stream = _Events(response.stream)
    else:
        is_document = response.request.method == "GET" and response.request.url.path.endswith(".json")
        response.stream = _Whole(response.stream, MAX_DOCUMENT_BYTES if is_document else MAX_ANSWER_BYTES)


class _Whole(httpx.AsyncByteStream):
    """Body of an answer that is passed on whole, after its checks."""

    def __init__(self, stream: httpx.AsyncByteStream, most: int) -> None:
        self._stream, self._most = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Collect into one array, because a body in chunks of a byte each would be a list of millions of objects.
        collected = bytearray()
        try:
            async with asyncio.timeout(PIECE_SECONDS):
                async for chunk in self._stream:
                    collected += chunk
                    _check_size(len(collected), self._most)
        except TimeoutError:
            raise A2AClientTimeoutError(f"It takes longer than {PIECE_SECONDS:.0f} s.") from None
        body = bytes(collected)
        del collected
        if body.lstrip()[:1] in (b"{", b"["):
            _check_json(body)
            body = _compact(body)
        yield body

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Events(httpx.AsyncByteStream):
    """Body of an event stream. Each event is passed on whole, after its checks."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

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
            while (end := _BETWEEN_EVENTS.search(begun, searched)) is not None:
                event = bytes(memoryview(begun)[: end.end()])
                begun = begun[len(event) :]
                searched, until = 0, clock() + PIECE_SECONDS
                _check_size(len(event), MAX_ANSWER_BYTES)
                _check_event(event)
                event = _compact(event)
                # Let go of a large event before its last piece: the reader has a copy by then.
                while len(event) > MEGABYTE:
                    yield event[:MEGABYTE]
                    event = event[MEGABYTE:]
                yield event
            _check_size(len(begun), MAX_ANSWER_BYTES)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _check_event(event: bytes) -> None:
    _check_json(b"\n".join([line[5:] for line in event.splitlines() if line.startswith(b"data:")]))


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise UnusableAnswer(f"It is larger than {most // MEGABYTE} MB.")


def _check_json(text: bytes) -> None:
    if excess := excess_of(text):
        raise UnusableAnswer(f"Its JSON has {excess}.")


def _compact(text: bytes) -> bytes:
    """Return a large JSON text, or an event with it, in the form that needs the least memory when it is decoded."""
    if len(text) > MEGABYTE:
        text = text.replace(b"data: {", b"data:{", 1)  # the SDK's client would copy the text to remove the space
    try:
        return in_ascii(text) if len(text) > MEGABYTE and not text.isascii() else text
    except UnicodeDecodeError as error:
        raise UnusableAnswer("It is not UTF-8.") from error
