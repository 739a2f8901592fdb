"""Many readers of one task share their reads."""

import asyncio
from collections.abc import Sequence

from aion_core.ports import Cursor, DeltaBatch, Log, TaskKey
from aion_core.tasks.call import CallContext
from tests.support.agents.scripted import Stepping
from tests.support.clock import ManualClock
from tests.support.requests import request
from tests.support.service import parts
from tests.support.stores import MemoryTaskStore


class Counted(MemoryTaskStore):
    """A store that counts its reads."""

    reads = 0

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        self.reads += 1
        return await super().log(key, after=after)

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        self.reads += 1
        return await super().deltas(key, since=since)


async def reads_of(readers: int, steps: int = 20) -> int:
    """Return the number of reads of these readers of a task with these steps."""
    clock = ManualClock()
    store = Counted(clock)
    made = parts(Stepping(steps, 1.0, clock), store, clock, lease_seconds=10_000)
    task = await made.service.send(CallContext("owner", "test"), request(return_immediately=True))
    heard: list[list[str]] = [[] for _ in range(readers)]

    async def follow(ids: list[str]) -> None:
        async for batch in made.service.subscribe(CallContext("owner", "test"), task.id):
            ids.extend(spoken.id for spoken in batch)

    following = [asyncio.create_task(follow(ids)) for ids in heard]
    await asyncio.sleep(0)
    store.reads = 0
    for _ in range(3000):
        clock.move(0.05)
        for _ in range(6):
            await asyncio.sleep(0)
        if all(task.done() for task in following):
            break
    await asyncio.gather(*following)
    for ids in heard:
        assert ids == [str(n) for n in range(int(ids[0]), steps + 4)], "each hears every event once"
    await made.work_queue.quiet()
    return store.reads


async def test_a_hundred_readers_cost_about_as_one() -> None:
    one, hundred = await reads_of(1), await reads_of(100)
    assert hundred <= 2 * one, f"{hundred} reads for a hundred, {one} for one"


async def test_a_thousand_readers_are_served_by_one_process() -> None:
    """Each of 100 readers receives all events."""
    one, thousand = await reads_of(1, steps=3), await reads_of(1000, steps=3)
    assert thousand <= 2 * one, f"{thousand} reads for a thousand, {one} for one"


async def test_leaving_reader_does_not_cancel_shared_read() -> None:
    clock = ManualClock()
    gate = asyncio.Event()

    class Slow(MemoryTaskStore):
        async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
            await gate.wait()
            return await super().deltas(key, since=since)

    made = parts(Stepping(0, 0.0, clock), Slow(clock), clock)
    task = await made.service.send(CallContext("owner", "test"), request())
    reads = made.service._reads
    two = [asyncio.create_task(reads.after(TaskKey("owner", task.id), 0, Cursor())) for _ in range(2)]
    await asyncio.sleep(0)
    two[0].cancel()
    gate.set()
    read = await two[1]
    assert read.log is not None
    assert len(read.log.events) == 3
