"""Term of a lease: a process acts on the lease only until its end, by the wall clock."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from aion_core.engine.outcomes import LeaseHeld, TurnStarted
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.errors import LeaseLost, StoreUnavailable
from aion_core.table.refusals import CONFLICT
from aion_core.table.writes import Write
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.failing import Failing
from tests.support.faulty_table import TableCall, TableFaults
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


async def test_check_renews_again_after_freeze_in_renewal(chat: StoreConversation, clock: ManualClock) -> None:
    """Freeze the process past its lease, and once more while it waits for the response to its renewal."""
    freezes = iter([LEASE_SECONDS + 1])

    class Freezing(TableFaults):
        def after(self, call: TableCall) -> None:
            clock.move(next(freezes, 0.0))

    term = term_of(chat, await chat.starts())
    clock.move(LEASE_SECONDS + 1)
    store: Any = chat.store
    store.table.faults = Freezing()
    term.check()
    assert store.calls["renew"] == 2
    assert isinstance(await chat.store.begin(chat.context, holder="other"), LeaseHeld)


@pytest.mark.parametrize("conflicts", [1, 100])
async def test_check_passes_only_after_stored_renewal(
    chat: StoreConversation, clock: ManualClock, conflicts: int
) -> None:
    """Let the renewal conflict with transactions: one of them may give the lease to another process."""
    term = term_of(chat, await chat.starts())
    clock.move(LEASE_SECONDS + 1)
    reasons = iter([[CONFLICT]] * conflicts)
    store: Any = chat.store

    class Conflicting(TableFaults):
        def reasons(self, writes: Sequence[Write]) -> Sequence[str]:
            return next(reasons, ())

    store.table.faults = Conflicting()
    if conflicts == 1:
        term.check()
        assert isinstance(await chat.store.begin(chat.context, holder="other"), LeaseHeld)
    else:
        with pytest.raises(StoreUnavailable):
            term.check()
