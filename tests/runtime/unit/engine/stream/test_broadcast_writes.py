"""Stream deltas written to a slow store: no batch is lost, written twice, or overtaken by a later batch."""

import asyncio
from typing import Any

from aion_core.engine.records import Delta
from aion_core.engine.stream.delta_writer import FLUSH_CHARACTERS, PAGE_CHARACTERS, DeltaWriter
from aion_core.table.keys import TaskKey
from tests.support.clock import ManualClock, settle


class SlowStore:
    """Store of stream deltas; each write completes when the test allows it."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        """Texts of the requested writes, answered or not."""
        self.answers = asyncio.Semaphore(0)

    async def append_deltas(self, key: TaskKey, batch: Any) -> None:
        """Record the write, and wait until the test allows it."""
        self.requests.append("".join(delta.text for delta in batch.chunks))
        await self.answers.acquire()


def writing() -> tuple[SlowStore, DeltaWriter]:
    """Return a slow store, and a writer that has received a first chunk."""
    store: Any = SlowStore()
    writer = DeltaWriter(store, TaskKey("ann", "t-1"), ManualClock(), fence=1)
    writer.follow(2)
    writer.add(Delta("one ", append=False))
    return store, writer


async def test_flush_of_chunks_waits_for_write_in_progress() -> None:
    store, writer = writing()
    await settle()
    writer.add(Delta("two", append=True))
    flushing = asyncio.create_task(writer.flush())
    await settle()
    assert (store.requests, flushing.done()) == (["one "], False)
    store.answers.release()
    store.answers.release()
    await flushing
    assert store.requests == ["one ", "two"]


async def test_chunks_of_cancelled_flush_are_written_again() -> None:
    """The store may have executed the cancelled write: writing the same batch a second time changes nothing."""
    store, writer = writing()
    await settle()
    store.answers.release()
    await settle()

    async def turn() -> None:
        writer.add(Delta("two ", append=True))
        await writer.flush()

    cancelled = asyncio.create_task(turn())
    await settle()
    cancelled.cancel()
    await settle()
    writer.add(Delta("three", append=True))
    store.answers.release()
    store.answers.release()
    await writer.flush()
    assert store.requests == ["one ", "two ", "two ", "three"]


async def test_chunk_buffer_filled_during_write_is_written_immediately_afterwards() -> None:
    store, writer = writing()
    await settle()
    page = "x" * PAGE_CHARACTERS
    for _ in range(FLUSH_CHARACTERS // PAGE_CHARACTERS):
        writer.add(Delta(page, append=True))
    store.answers.release()
    await settle()
    assert store.requests[0] == "one "
    assert store.requests[1].startswith(page), "the manual clock has not moved"
    store.answers.release()
    await writer.flush()
    await writer.stop()
