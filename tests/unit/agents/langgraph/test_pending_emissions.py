"""Emissions before a checkpoint: the checkpoint waits until each is recorded, or found to be of another stream."""

import asyncio

import pytest

from aion_core.agents.langgraph.turn import PendingEmissions
from aion_core.errors import LeaseLost


async def test_wait_without_pending_emissions_returns_immediately() -> None:
    await PendingEmissions().wait_recorded()


async def test_wait_for_pending_emissions_ignores_later_emissions() -> None:
    pending, first, later = PendingEmissions(), object(), object()
    pending.add(first)
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0)
    pending.add(later)
    assert not waiting.done()
    pending.mark_recorded(first)
    await waiting


async def test_pending_emissions_of_equal_value_are_tracked_separately() -> None:
    pending, one, other = PendingEmissions(), [1], [1]
    pending.add(one)
    pending.add(other)
    pending.mark_recorded(one)
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0)
    assert not waiting.done()
    pending.mark_recorded(other)
    await waiting


async def test_emission_absent_from_turns_stream_is_no_longer_pending(caplog: pytest.LogCaptureFixture) -> None:
    pending = PendingEmissions()
    pending.add(lost := object())
    pending.reading = True
    await pending.wait_recorded()
    assert "did not reach" in caplog.text
    await pending.wait_recorded()
    pending.mark_recorded(lost)  # a late call, which has no effect


async def test_pending_emission_is_not_dropped_during_recording() -> None:
    pending, emission = PendingEmissions(), object()
    pending.add(emission)
    pending.reading = True
    pending.event_received()
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    pending.mark_recorded(emission)
    await waiting


async def test_aborted_wait_for_emissions_raises_lease_lost() -> None:
    pending = PendingEmissions()
    pending.add(object())
    waiting = asyncio.create_task(pending.wait_recorded())
    await asyncio.sleep(0)
    pending.abort()
    with pytest.raises(LeaseLost):
        await waiting
