"""Term of a lease: a process acts on the lease only until its end, by the wall clock."""

from datetime import timedelta
from typing import Any

import pytest

from aion_core.engine.outcomes import LeaseHeld, TurnStarted
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.errors import LeaseLost, StoreUnavailable
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.failing import Failing
from tests.support.stores import LEASE_SECONDS, MemoryTaskStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Any:
    return Failing(MemoryTaskStore(clock))


@pytest.fixture
def chat(store: Any, clock: ManualClock) -> StoreConversation:
    return StoreConversation(store, clock)


def term_of(chat: StoreConversation, begun: TurnStarted) -> LeaseTerm:
    return LeaseTerm(chat.store, begun.lease, chat.clock, seconds=LEASE_SECONDS, until=begun.until)


async def test_started_turn_knows_end_of_its_lease(chat: StoreConversation) -> None:
    begun = await chat.starts()
    assert begun.until is not None
    assert timedelta(0) <= chat.clock.now() + timedelta(seconds=LEASE_SECONDS) - begun.until < timedelta(milliseconds=1)


@pytest.mark.parametrize(("seconds", "renewals"), [(LEASE_SECONDS - 0.001, 0), (LEASE_SECONDS, 1), (3600, 1)])
async def test_check_renews_only_after_the_term(chat: StoreConversation, seconds: float, renewals: int) -> None:
    term = term_of(chat, await chat.starts())
    chat.clock.move(seconds)
    term.check()
    taken = await chat.store.begin(chat.context, holder="other")
    assert isinstance(taken, LeaseHeld) is (renewals > 0 or seconds < LEASE_SECONDS)
    # The renewal begins a new term: the next check is free again.
    chat.store.refuse(renew=1)  # type: ignore[attr-defined]
    term.check()


async def test_check_refuses_a_turn_taken_by_another_process(chat: StoreConversation) -> None:
    term = term_of(chat, await chat.starts())
    chat.clock.move(LEASE_SECONDS + 1)
    await chat.begins("other")
    for _ in range(2):
        with pytest.raises(LeaseLost):
            term.check()


async def test_check_refuses_a_turn_that_another_process_has_ended(chat: StoreConversation) -> None:
    term = term_of(chat, await chat.starts())
    chat.clock.move(LEASE_SECONDS + 1)
    await chat.ends(await chat.begins("other"))
    with pytest.raises(LeaseLost):
        term.check()


async def test_check_raises_if_the_store_cannot_tell(chat: StoreConversation) -> None:
    """No step begins on a lease that has run out and cannot be renewed."""
    term = term_of(chat, await chat.starts())
    chat.clock.move(LEASE_SECONDS + 1)
    chat.store.refuse(renew=1)  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable):
        term.check()
    term.check()


async def test_term_counts_from_before_the_request(chat: StoreConversation, clock: ManualClock) -> None:
    """Freeze the process while it waits for the response to its renewal."""
    begun = await chat.starts()

    class Slow:
        def renew(self, lease: Any) -> bool:
            clock.move(100)
            return True

    slow: Any = Slow()
    term = LeaseTerm(slow, begun.lease, clock, seconds=LEASE_SECONDS, until=begun.until)
    before = clock.now()
    assert term.renew()
    assert clock.now() > before + timedelta(seconds=LEASE_SECONDS)
    other: Any = chat.store
    other.refuse(renew=1)
    term._store = other
    with pytest.raises(StoreUnavailable):
        term.check()
