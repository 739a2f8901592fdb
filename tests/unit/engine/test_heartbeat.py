"""How often a lease is looked after, with one turn in the process and with many."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from aion_core.memory.queues import MemoryBells
from aion_core.ports import ContextKey, Lease, Turn
from aion_core.tasks.heartbeat import LOOKS_PER_SECOND, WATCH_SECONDS, Heartbeat
from tests.support.clock import ManualClock


def heartbeat(number: int, clock: ManualClock, *, renew_seconds: float) -> Heartbeat:
    store: Any = None  # nothing is asked of it within the test's time
    lease = Lease(ContextKey("o", "a", f"c-{number}"), Turn(f"turn-{number}", f"t-{number}", 1), "holder", 1)
    return Heartbeat(store, MemoryBells(clock), lease, renew_seconds=renew_seconds, bell_seconds=30)


async def test_one_turn_is_looked_at_each_second(clock: ManualClock) -> None:
    async with heartbeat(0, clock, renew_seconds=10) as beat:
        assert beat.pause == WATCH_SECONDS


async def test_many_turns_share_the_looks_of_a_process(clock: ManualClock) -> None:
    count = 200
    async with AsyncExitStack() as until_the_end:
        beats = [
            await until_the_end.enter_async_context(heartbeat(number, clock, renew_seconds=60))
            for number in range(count)
        ]
        assert count / beats[-1].pause == LOOKS_PER_SECOND
        short = heartbeat(count, clock, renew_seconds=2)
        assert short.pause == 2, "a lease is renewed in time however many there are"
    assert heartbeat(0, clock, renew_seconds=10).pause == WATCH_SECONDS
    await asyncio.sleep(0)
