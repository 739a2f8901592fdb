"""Emissions before a checkpoint: the checkpoint waits until each is recorded, or found to be of another stream."""

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from aion_core.agents.langgraph.pending_emissions import PendingEmissions
from aion_core.errors import LeaseLost


async def test_wait_for_pending_emissions_ignores_later_emissions() -> None:
    pending, first, later = PendingEmissions(), object(), object()
    pending.add(first)
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0)
    pending.add(later)
    assert not waiting.done()
    pending.mark_recorded(first)
    await waiting


async def test_equal_pending_values_are_tracked_separately() -> None:
    pending, one, other = PendingEmissions(), [1], [1]
    pending.add(one)
    pending.add(other)
    pending.mark_recorded(one)
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0)
    assert not waiting.done()
    pending.mark_recorded(other)
    await waiting


async def test_wait_lasts_until_received_value_is_recorded() -> None:
    pending, emission = PendingEmissions(), object()
    pending.add(emission)
    pending.reading = True
    pending.event_received()
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    pending.mark_recorded(emission)
    await waiting


async def test_abort_makes_wait_raise_lease_lost() -> None:
    pending = PendingEmissions()
    pending.add(object())
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0)
    pending.abort()
    with pytest.raises(LeaseLost):
        await waiting


async def test_waiting_for_many_emissions_takes_linear_work() -> None:
    async def calls(number: int) -> int:
        pending, emissions, count = PendingEmissions(), [object() for _ in range(number)], 0
        for each in emissions:
            pending.add(each)
        waiting = asyncio.create_task(pending.wait_recorded())

        def profile(frame: FrameType, event: str, arg: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            for each in emissions:
                # Let the waiting task look once after each record.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                pending.mark_recorded(each)
            await waiting
        finally:
            sys.setprofile(None)
        return count

    assert await calls(400) < 5 * await calls(100)
