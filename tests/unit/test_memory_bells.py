"""Bells within one process: what is not answered is heard again, a bounded number of times."""

import asyncio
import threading

import pytest

from aion_core.errors import StoreUnavailable
from aion_core.memory.queues import TRIES, MemoryBells
from aion_core.ports import Bell, ContextKey
from tests.support.clock import ManualClock

BELL = Bell(ContextKey("owner", "echo", "c-1"))


class Listener:
    """Answers a bell after so many failures."""

    def __init__(self, *, failures: int = 0) -> None:
        self.heard = 0
        self._failures = failures

    async def __call__(self, bell: Bell) -> None:
        self.heard += 1
        if self.heard <= self._failures:
            raise ValueError("not now")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_bell_that_was_not_answered_is_heard_again_later_each_time(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    bells, listener = MemoryBells(clock), Listener(failures=2)
    bells.answered_by(listener)
    await bells.ring(BELL)
    await settle()
    for seconds, heard in ((0.9, 1), (0.2, 2), (1.9, 2), (0.2, 3), (3600, 3)):
        clock.move(seconds)
        await settle()
        assert listener.heard == heard
    await bells.quiet()
    assert bells.dead == []
    assert caplog.text.count("A bell was not answered.") == 2
    assert "not now" in caplog.text


async def test_a_bell_that_is_never_answered_is_dead_after_its_tries(clock: ManualClock) -> None:
    bells, listener = MemoryBells(clock), Listener(failures=100)
    bells.answered_by(listener)
    await bells.ring(BELL)
    for _ in range(TRIES):
        await settle()
        clock.move(60)
    await bells.quiet()
    assert (listener.heard, bells.dead) == (TRIES, [BELL])


async def test_a_bell_that_fails_holds_up_no_other(clock: ManualClock) -> None:
    bells = MemoryBells(clock)
    heard: list[Bell] = []

    async def answer(bell: Bell) -> None:
        if not bell.fence:
            raise ValueError
        heard.append(bell)

    bells.answered_by(answer)
    await bells.ring(BELL)
    await bells.ring(Bell(BELL.context, 1))
    await settle()
    assert heard == [Bell(BELL.context, 1)]
    bells.close()


async def test_it_is_quiet_when_everything_is_answered_and_what_the_answers_rang_too(clock: ManualClock) -> None:
    bells = MemoryBells(clock)
    heard: list[int] = []

    async def answer(bell: Bell) -> None:
        await asyncio.sleep(0.01)
        heard.append(bell.fence)
        if len(heard) < 3:
            await bells.ring(Bell(BELL.context, len(heard)))

    bells.answered_by(answer)
    await bells.quiet()
    await bells.ring(BELL)
    await bells.quiet()
    assert heard == [0, 1, 2]


async def test_it_is_not_quiet_while_a_thread_has_just_rung(clock: ManualClock) -> None:
    bells, listener = MemoryBells(clock), Listener()
    bells.answered_by(listener)
    bells.open()
    thread = threading.Thread(target=bells.ring_from_thread, args=(BELL,))
    thread.start()
    thread.join()
    await bells.quiet()
    assert listener.heard == 1


async def test_closed_bells_are_heard_no_more(clock: ManualClock) -> None:
    bells, listener = MemoryBells(clock), Listener()
    bells.answered_by(listener)
    await bells.ring(BELL, delay=10)
    await asyncio.to_thread(bells.ring_from_thread, BELL, delay=10)
    bells.close()
    clock.move(20)
    await bells.quiet()
    assert listener.heard == 0


def test_what_a_thread_has_rung_before_there_is_an_event_loop_is_heard_when_there_is_one(clock: ManualClock) -> None:
    bells, listener = MemoryBells(clock), Listener()
    bells.answered_by(listener)
    bells.ring_from_thread(BELL)

    async def ring() -> None:
        await bells.ring(BELL)
        await bells.quiet()

    asyncio.run(ring())
    assert listener.heard == 2
    with pytest.raises(StoreUnavailable, match="event loop that hears the bells is closed"):
        bells.ring_from_thread(BELL)


async def test_bells_that_nobody_answers_are_dead_in_the_end(clock: ManualClock) -> None:
    bells = MemoryBells(clock, tries=1)
    await bells.ring(BELL)
    await bells.quiet()
    assert bells.dead == [BELL]
