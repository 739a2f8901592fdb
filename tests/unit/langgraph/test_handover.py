"""When a checkpoint may follow what a node has emitted: once that is recorded, or is known to go elsewhere."""

import asyncio

import pytest

from aion_core.agents.langgraph.turn import Handover
from aion_core.errors import LeaseLost


async def test_nothing_is_waited_for_where_nothing_was_emitted() -> None:
    await Handover().caught_up()


async def test_what_is_under_way_is_waited_for_and_what_comes_later_is_not() -> None:
    handover, first, later = Handover(), object(), object()
    handover.hand(first)
    waiting = asyncio.create_task(handover.caught_up())
    await asyncio.sleep(0)
    handover.hand(later)
    assert not waiting.done()
    handover.record(first)
    await waiting


async def test_an_equal_emission_is_another_one() -> None:
    handover, one, other = Handover(), [1], [1]
    handover.hand(one)
    handover.hand(other)
    handover.record(one)
    waiting = asyncio.create_task(handover.caught_up())
    await asyncio.sleep(0)
    assert not waiting.done()
    handover.record(other)
    await waiting


async def test_what_never_reaches_a_stream_that_is_read_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    handover = Handover()
    handover.hand(lost := object())
    handover.read()
    await handover.caught_up()
    assert "did not reach" in caplog.text
    await handover.caught_up()
    handover.record(lost)  # late, and no matter


async def test_nothing_is_given_up_while_something_is_being_recorded() -> None:
    handover, emission = Handover(), object()
    handover.hand(emission)
    handover.read()
    handover.heard()
    waiting = asyncio.create_task(handover.caught_up())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    handover.record(emission)
    await waiting


async def test_what_is_cut_will_never_be_recorded() -> None:
    handover = Handover()
    handover.hand(object())
    waiting = asyncio.create_task(handover.caught_up())
    await asyncio.sleep(0)
    handover.cut()
    with pytest.raises(LeaseLost):
        await waiting
