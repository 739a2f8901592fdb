"""Answers at the limits of a client: passed on whole, or refused with a sentence."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from a2a.client.errors import A2AClientError, A2AClientTimeoutError

from aion_core.agent_client import bounded as timed
from aion_core.agent_client.bounded import UnusableAnswer, bounded, is_connection_error
from aion_core.agent_client.documents import document_of
from aion_core.agent_client.limits import (
    MAX_DOCUMENT_BYTES,
    MAX_HEARTBEAT_BYTES,
    MEGABYTE,
    OF_AGENTS,
    OF_COMMANDS,
    AnswerLimits,
)
from tests.support.rows import each_row

EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}
CARD, ANSWER = "http://a.example/card.json", "http://a.example/task"


class Body(httpx.AsyncByteStream):
    """Body in chunks. The chunk b"" is a silence without end."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if not chunk:
                await asyncio.Event().wait()
            yield chunk

    async def aclose(self) -> None:
        self.is_closed = True


def client(body: Body, headers: dict[str, str] | None = None, limits: AnswerLimits = OF_COMMANDS) -> httpx.AsyncClient:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return httpx.Response(200, headers=headers, stream=body)

    return bounded(httpx.AsyncClient(transport=httpx.MockTransport(answer)), limits)


@pytest.mark.parametrize(
    ("url", "most"), [(CARD, MAX_DOCUMENT_BYTES), (ANSWER, OF_COMMANDS.answer)], ids=["card", "answer"]
)
async def test_answer_of_largest_size_is_passed_on(url: str, most: int) -> None:
    text = b'"' + b"a" * (most - 2) + b'"'
    assert (await client(Body(text[:5], text[5:])).get(url)).content == text
    body = Body(text, b" ")
    with pytest.raises(UnusableAnswer, match=f"It is larger than {most // MEGABYTE} MB."):
        await client(body).get(url)
    assert body.is_closed


async def test_document_elsewhere_has_limit_of_cards() -> None:
    with pytest.raises(UnusableAnswer, match=r"It is larger than 1 MB\."):
        await document_of(client(Body(b" " * (MAX_DOCUMENT_BYTES + 1))).get(ANSWER))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_events_are_passed_on_whole(end: bytes) -> None:
    """Receive events byte by byte, also a comment, an empty line and an event that is cut off."""
    sent = end.join([b": ping", b"", b"data: 1", b"data: [2", b"", b"", b"event: x", b"data: 3", b"", b"data: 4"])
    async with client(Body(*(sent[at : at + 1] for at in range(len(sent)))), EVENTS).stream("GET", ANSWER) as response:
        events = [event async for event in response.aiter_raw()]
    assert b"".join(events) == sent.removesuffix(b"data: 4")
    assert events[0].startswith(b": ping")


async def test_event_of_largest_size_is_passed_on() -> None:
    event = b'data: {"raw":"' + b"a" * (OF_AGENTS.answer - 18) + b'"}\n\n'
    async with client(Body(event, event, b"data: a"), EVENTS, OF_AGENTS).stream("GET", ANSWER) as response:
        assert await response.aread() == event.replace(b": {", b":{") * 2
    larger = b"data: a\n" * (OF_AGENTS.answer // 8 + 1)
    async with client(Body(larger), EVENTS, OF_AGENTS).stream("GET", ANSWER) as response:
        with pytest.raises(UnusableAnswer, match=r"It is larger than 6 MB\."):
            await response.aread()


@each_row(
    ("event", "passes"),
    [
        (b"data: " + b"[" * 65 + b"\n\n", False),
        (b"data: " + b"[" * 40 + b"\ndata: " + b"[" * 40 + b"\n\n", False),
        (b': a comment with "\ndata: ' + b"[" * 65 + b"\n\n", False),
        (b": " + b"[" * 65 + b"\n\n", True),
        (b'data: "' + b"[" * 65 + b'"\n\n', True),
    ],
)
async def test_json_of_event_is_counted(event: bytes, passes: bool) -> None:
    async with client(Body(event), EVENTS).stream("GET", ANSWER) as response:
        if passes:
            assert await response.aread() == event
        else:
            with pytest.raises(UnusableAnswer, match=r"Its JSON has more than 64 levels\."):
                await response.aread()


@pytest.mark.parametrize(
    ("body", "headers"),
    [(Body(b"{", b""), {}), (Body(b"data: a\n\ndata", b""), EVENTS), (Body(b"data: a\n\n:", b""), EVENTS)],
    ids=["answer", "event", "comment"],
)
async def test_dripping_answer_ends(body: Body, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "PIECE_SECONDS", 0.01)
    with pytest.raises(A2AClientTimeoutError, match="takes longer than"):
        await client(body, headers).get(ANSWER)


async def test_silence_between_events_has_no_limit_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """httpx's own limit of silence applies; heartbeats end the silence."""
    monkeypatch.setattr(timed, "PIECE_SECONDS", 0.0)
    waiting = asyncio.create_task(client(Body(b": ping\n\n", b""), EVENTS).get(ANSWER))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    waiting.cancel()


async def test_agents_have_smaller_limits() -> None:
    for body, headers in (b'"' + b"a" * OF_AGENTS.answer, {}), (b"data: " + b"a" * OF_AGENTS.answer, EVENTS):
        with pytest.raises(UnusableAnswer, match=r"It is larger than 6 MB\."):
            await client(Body(body), headers, OF_AGENTS).get(ANSWER)
    with pytest.raises(UnusableAnswer, match=r"Its JSON has more than 1\.5 MB beside its files\."):
        await client(Body(b'["' + b"a" * OF_AGENTS.text + b'"]'), {}, OF_AGENTS).get(ANSWER)


async def test_values_of_document_have_limit_of_cards() -> None:
    text = b"[" + b"0," * 10_000 + b"0]"
    assert (await client(Body(text)).get(ANSWER)).content == text
    with pytest.raises(UnusableAnswer, match=r"Its JSON has more than 10000 values\."):
        await client(Body(text)).get(CARD)


async def test_heartbeats_of_stream_have_limit_together() -> None:
    ping = b": %s\n\n" % (b"p" * 1000)
    beats = ping * (MAX_HEARTBEAT_BYTES // len(ping))
    assert len((await client(Body(beats, b"data: 1\n\n"), EVENTS).get(ANSWER)).content) == len(beats) + 9
    with pytest.raises(UnusableAnswer, match=r"It has more than 1 MB of heartbeats\."):
        await client(Body(beats, b"data: 1\n\n", ping), EVENTS).get(ANSWER)


@pytest.mark.parametrize(("body", "headers"), [(b'["\xff"]', {}), (b'data: "\xff"\n\n', EVENTS)])
async def test_answer_that_is_not_utf8_is_refused(body: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(UnusableAnswer, match=r"It is not UTF-8\."):
        await client(Body(body), headers).get(ANSWER)


@each_row("coding", ["gzip", "br", "x", "identity, gzip"])
async def test_compressed_answer_is_refused(coding: str) -> None:
    with pytest.raises(UnusableAnswer, match="It is compressed"):
        await client(Body(b"{}"), {"Content-Encoding": coding}).get(ANSWER)


async def test_client_gets_limits_once() -> None:
    made = httpx.AsyncClient()
    assert bounded(bounded(made, OF_AGENTS), OF_COMMANDS) is made
    assert len(made.event_hooks["response"]) == 1


@each_row(
    ("error", "is_connection"),
    [
        (httpx.ConnectError, True),
        (httpx.ReadTimeout, True),
        (httpx.RemoteProtocolError, True),
        (httpx.LocalProtocolError, False),
        (httpx.UnsupportedProtocol, False),
        (A2AClientError, False),
    ],
)
def test_request_that_cannot_be_sent_is_no_connection_error(
    error: Callable[[str], Exception], is_connection: bool
) -> None:
    assert is_connection_error(error("x")) is is_connection
