"""Time limits by the clock of the service: what ends a wait, and what the wait leaves behind."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from aion_core.clock import within
from tests.support.clock import ManualClock, settle


@pytest.fixture
async def clock() -> AsyncIterator[ManualClock]:
    yield ManualClock()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def returns_none() -> None:
    await asyncio.sleep(0)


async def raises_timeout() -> None:
    raise TimeoutError("of the work itself")


async def test_work_ends_before_its_time_is_over(clock: ManualClock) -> None:
    assert await within(clock, 5.0, returns_none())
    assert await within(clock, None, returns_none())
    await settle()


async def test_work_is_canceled_when_its_time_is_over(clock: ManualClock) -> None:
    work = asyncio.Event()
    waiting = asyncio.ensure_future(within(clock, 5.0, work.wait()))
    await clock.passes(4.9)
    assert not waiting.done()
    await clock.passes(0.2)
    assert waiting.result() is False
    await settle()


@pytest.mark.parametrize("already", [True, False])
async def test_work_is_canceled_when_process_stops(clock: ManualClock, already: bool) -> None:
    leave = asyncio.get_running_loop().create_future()
    if already:
        leave.set_result(None)
    waiting = asyncio.ensure_future(within(clock, 5.0, asyncio.Event().wait(), leave))
    await settle()
    if not already:
        assert not waiting.done()
        leave.set_result(None)
        clock.move(6.0)  # both reasons at once end the wait once
        await settle()
    assert waiting.result() is False
    await settle()


async def test_error_of_work_is_raised_also_a_timeout(clock: ManualClock) -> None:
    with pytest.raises(TimeoutError, match="of the work itself"):
        await within(clock, 5.0, raises_timeout())
    await settle()


async def test_canceled_wait_cancels_its_work(clock: ManualClock) -> None:
    canceled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()

    waiting = asyncio.ensure_future(within(clock, 5.0, work()))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert canceled.is_set()
    await settle()
