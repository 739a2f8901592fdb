"""Errors of unusable answers, and the size of what is kept of one answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest
from a2a.types import (
    Artifact,
    GetTaskRequest,
    Message,
    Part,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseError

from aion_core.agent_client.bounded import UnusableAnswer
from aion_core.agent_client.checked import MAX_EMPTY, PART_BYTES, VALUE_BYTES, CheckedClient, Kept, size_of, usable
from aion_core.agent_client.limits import MEGABYTE
from tests.support.rows import each_row


@each_row("error", [ParseError, ValueError, TypeError, KeyError, AttributeError, RecursionError])
def test_error_of_unusable_answer_has_one_kind(error: type[Exception]) -> None:
    with pytest.raises(UnusableAnswer), usable():
        raise error("x")


def test_all_that_is_kept_has_one_limit() -> None:
    kept = Kept(32 * MEGABYTE)
    for _ in range(100):
        kept.put("a", 8 * MEGABYTE)  # the same artifact, again and again
    kept.put("a", 8 * MEGABYTE, append=True)
    kept.put("b", 8 * MEGABYTE)
    with pytest.raises(UnusableAnswer, match=r"It is larger than 32 MB in all\."):
        kept.put("a", 8 * MEGABYTE, append=True)


def test_many_small_parts_are_counted() -> None:
    with pytest.raises(UnusableAnswer):
        Kept(MEGABYTE).put("a", 0, parts=MEGABYTE // 256)


def test_size_has_values_parts_text_and_files() -> None:
    file = Part(raw=b"a" * 3000)
    text = Part(text="é" * 1000, metadata={"a": [{}, 1]})
    assert size_of(file) == PART_BYTES + 2 * VALUE_BYTES + 4000 + 4 * (file.ByteSize() - 3000)
    # The part, its text, the metadata with one member, the list, and its two items, of which one has a number.
    assert size_of(text) == PART_BYTES + 9 * VALUE_BYTES + 4 * text.ByteSize()
    whole = Task(artifacts=[Artifact(parts=[file, text])])
    assert size_of(whole) >= size_of(file) + size_of(text)


class Streaming:
    """The SDK's client, with one answer after many responses without content. `closed` has the generators' ends."""

    def __init__(self, empty: int) -> None:
        self._empty, self.closed = empty, list[int]()

    async def send_message(self, *_: object, **__: object) -> AsyncGenerator[StreamResponse, None]:
        async for each in self._responses(12):
            yield each

    async def _responses(self, levels: int) -> AsyncGenerator[StreamResponse, None]:
        try:
            if levels:
                async for each in self._responses(levels - 1):
                    yield each
                return
            for _ in range(self._empty):
                yield StreamResponse()
            yield StreamResponse(task=Task(id="t"))
            yield StreamResponse(task=Task(id="t"))
        finally:
            self.closed.append(levels)


async def test_responses_without_content_are_left_out() -> None:
    client = CheckedClient(cast("Any", Streaming(MAX_EMPTY)))
    assert len([each async for each in client.send_message(SendMessageRequest())]) == 2
    client = CheckedClient(cast("Any", Streaming(MAX_EMPTY + 1)))
    with pytest.raises(UnusableAnswer, match=r"It has more than 10000 responses without content\."):
        _ = [each async for each in client.send_message(SendMessageRequest())]


async def test_readers_of_left_stream_are_gone_after_it() -> None:
    """Leave a stream after its first response. The readers within it would hold that response's text."""
    streaming = Streaming(0)
    async with aclosing(CheckedClient(cast("Any", streaming)).send_message(SendMessageRequest())) as responses:
        async for _ in responses:
            break
    assert streaming.closed == list(range(12, -1, -1))


def of(task_id: str) -> list[StreamResponse]:
    """Return a response of each kind that names this task."""
    return [
        StreamResponse(task=Task(id=task_id)),
        StreamResponse(status_update=TaskStatusUpdateEvent(task_id=task_id)),
        StreamResponse(artifact_update=TaskArtifactUpdateEvent(task_id=task_id)),
    ]


class Answering:
    """The SDK's client, with the same responses to each request."""

    def __init__(self, *responses: StreamResponse) -> None:
        self._responses = responses

    async def send_message(self, *_: object, **__: object) -> AsyncGenerator[StreamResponse, None]:
        for each in self._responses:
            yield each

    subscribe = send_message

    async def get_task(self, *_: object, **__: object) -> Task:
        return self._responses[0].task


@each_row("responses", [(first, other) for first in of("t") for other in of("u")])
async def test_response_about_another_task_is_unusable(responses: tuple[StreamResponse, ...]) -> None:
    client = CheckedClient(cast("Any", Answering(*responses)))
    for stream in client.send_message(SendMessageRequest()), client.subscribe(SubscribeToTaskRequest(id="t")):
        assert await anext(stream) == responses[0]
        with pytest.raises(UnusableAnswer, match="about another task"):
            await anext(stream)
    client = CheckedClient(cast("Any", Answering(*responses[::-1])))
    with pytest.raises(UnusableAnswer, match="about another task"):
        _ = [each async for each in client.subscribe(SubscribeToTaskRequest(id="t"))]


@each_row("task_id, reason", [("u", "about another task"), ("", "no id")])
async def test_other_task_than_requested_is_unusable(task_id: str, reason: str) -> None:
    client = CheckedClient(cast("Any", Answering(StreamResponse(task=Task(id=task_id)))))
    with pytest.raises(UnusableAnswer, match=reason):
        await client.get_task(GetTaskRequest(id="t"))


async def test_updates_and_messages_need_no_task_id() -> None:
    responses = [*of("t"), *of("")[1:], StreamResponse(message=Message(task_id="u"))]
    client = CheckedClient(cast("Any", Answering(*responses)))
    assert [each async for each in client.send_message(SendMessageRequest())] == responses
