"""What waits at the same time: batches of emissions, and stream items that need no wait."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextvars import ContextVar

import pytest

from aion_core.agents.waiting import EagerStream, together
from aion_core.engine.agent import AgentArtifact, AgentMessage, AgentMetadata, Batch, Chunk, Emission, Reply
from aion_core.engine.task.transition import MOST_TOGETHER
from aion_core.protocol.types import Artifact, Message
from tests.support.rows import each_row

MESSAGE, METADATA, FILE = AgentMessage(Message(message_id="m")), AgentMetadata({"a": 1}), AgentArtifact(Artifact())
CHUNK, REPLY = Chunk("word", "m"), Reply(None)


@each_row(
    ("emissions", "expected"),
    [
        ([], []),
        ([MESSAGE], [MESSAGE]),
        ([MESSAGE, METADATA, FILE], [Batch([MESSAGE, METADATA, FILE])]),
        ([MESSAGE, CHUNK, FILE, METADATA], [MESSAGE, CHUNK, Batch([FILE, METADATA])]),
        ([CHUNK, MESSAGE, FILE, REPLY], [CHUNK, Batch([MESSAGE, FILE]), REPLY]),
        ([FILE] * MOST_TOGETHER, [Batch([FILE] * MOST_TOGETHER)]),
        ([FILE] * (MOST_TOGETHER + 1), [Batch([FILE] * MOST_TOGETHER), FILE]),
    ],
)
def test_recorded_emissions_that_follow_one_another_are_one_batch(
    emissions: list[Emission], expected: list[Emission]
) -> None:
    assert list(together(emissions)) == expected


def test_emissions_before_error_are_yielded_first() -> None:
    def emissions() -> Iterator[Emission]:
        yield MESSAGE
        yield FILE
        raise ValueError("no more")

    found = together(emissions())
    assert next(found) == Batch([MESSAGE, FILE])
    with pytest.raises(ValueError, match="no more"):
        next(found)


VISITS: ContextVar[int] = ContextVar("visits")


class Numbers:
    """Stream that yields 1, 2 and 3 at once and 4 and 5 after a wait, and notes its end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.goes_on, self.has_ended, self._error = asyncio.Event(), False, error

    async def stream(self) -> AsyncGenerator[int, None]:
        token = VISITS.set(0)
        try:
            for number in (1, 2, 3):
                yield number
            await self.goes_on.wait()
            for number in (4, 5):
                yield number
            if self._error is not None:
                raise self._error
        finally:
            await asyncio.sleep(0)
            self.has_ended = True
            VISITS.reset(token)


async def test_stream_yields_items_that_wait_together() -> None:
    numbers, batches = Numbers(), []
    stream = EagerStream(numbers.stream())
    async for number in stream:
        batches.append([number, *stream.waiting(lambda _: True)])
        numbers.goes_on.set()
    assert batches == [[1, 2, 3], [4, 5]]
    assert numbers.has_ended


async def test_stream_keeps_item_that_is_not_wanted() -> None:
    numbers, batches = Numbers(), []
    numbers.goes_on.set()
    stream = EagerStream(numbers.stream())
    async for number in stream:
        batches.append([number, *stream.waiting(lambda item: item != 3)])
    assert batches == [[1, 2], [3, 4, 5]]


async def test_error_of_stream_is_raised_after_items_before_it() -> None:
    numbers = Numbers(ValueError("broken"))
    numbers.goes_on.set()
    stream = EagerStream(numbers.stream())
    assert [await anext(aiter(stream)), *stream.waiting(lambda _: True)] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="broken"):
        await anext(aiter(stream))


async def test_stopped_stream_can_be_closed_in_middle_of_step() -> None:
    numbers = Numbers()
    source = numbers.stream()
    stream = EagerStream(source)
    assert await anext(aiter(stream)) == 1
    assert list(stream.waiting(lambda _: True)) == [2, 3]
    await stream.stop()
    await source.aclose()
    assert numbers.has_ended


@pytest.mark.parametrize("awaited", [True, False], ids=["while its step is awaited", "while the caller works"])
async def test_cancellation_reaches_stream(awaited: bool) -> None:
    numbers = Numbers()

    async def read() -> None:
        stream = EagerStream(numbers.stream())
        try:
            async for _ in stream:
                list(stream.waiting(lambda _: True))
                if not awaited:
                    await asyncio.Event().wait()
        finally:
            await stream.stop()

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert numbers.has_ended
