"""Retries of transactions: each retry plans its writes anew; idempotency tokens; limits of attempts and time."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

import pytest

from aion_core.engine.fenced_writes import Fence, FencedWrites
from aion_core.errors import LeaseLost, StoreUnavailable
from aion_core.table import keys, retries
from aion_core.table.conditions import Absent, Exists
from aion_core.table.item import Key
from aion_core.table.keys import ContextKey
from aion_core.table.refusals import CONFLICT, FINE, WriteRefused
from aion_core.table.retries import TransactionPlan, commit, write_unless_refused
from aion_core.table.writes import Change, ConditionCheck, Put, Update, Write
from tests.simulation.loop import SimLoop
from tests.support.clock import ManualClock
from tests.support.faulty_table import FaultyTable, TableCall, TableFaults
from tests.support.rows import each_row

T = TypeVar("T")
A, B = Key("p", "a"), Key("p", "b")
BOTH = (Put(A, {"n": 1}), Put(B, {"n": 1}))


class PlannedTable(TableFaults):
    """Table whose first calls have these outcomes in order: `fine`, `conflict`, `throttled` or `lost`."""

    def __init__(self, *faults: str) -> None:
        self._faults = list(faults)
        self.calls: list[TableCall] = []

    def before(self, call: TableCall) -> None:
        if call.operation in {"write", "transact"}:
            self.calls.append(call)
            if self._now() == "throttled":
                raise StoreUnavailable("throttled")

    def after(self, call: TableCall) -> None:
        if call.operation in {"write", "transact"} and self._now() == "lost":
            raise StoreUnavailable("lost")

    def reasons(self, writes: Sequence[Write]) -> Sequence[str]:
        return [CONFLICT if self._now() == "conflict" else FINE for _ in writes]

    def _now(self) -> str:
        place = len(self.calls) - 1
        return self._faults[place] if place < len(self._faults) else "fine"


def run(coroutine: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Run the coroutine in virtual time; return its result and the seconds that it took."""
    loop = SimLoop(Random(0))
    try:
        return loop.run_until_complete(coroutine), loop.time()
    finally:
        loop.close()


def planning(*plans: TransactionPlan[str]) -> tuple[Callable[[int], Awaitable[TransactionPlan[str]]], list[int]]:
    """Return a planner that returns these plans in turn, and the list of its attempts."""
    attempts: list[int] = []

    async def plan(attempt: int) -> TransactionPlan[str]:
        attempts.append(attempt)
        return plans[min(len(attempts), len(plans)) - 1]

    return plan, attempts


def committed(faults: PlannedTable, *plans: TransactionPlan[str]) -> tuple[str, list[int], FaultyTable]:
    table = FaultyTable(ManualClock(), faults=faults)
    plan, attempts = planning(*plans)
    return run(commit(table, plan, busy="busy"))[0], attempts, table


@each_row(
    ("writes", "operation"),
    [(BOTH, "transact"), (BOTH[:1], "write"), ((ConditionCheck(A, Absent()),), "transact"), ((), "")],
)
def test_planned_writes_use_cheapest_table_operation(writes: Sequence[Write], operation: str) -> None:
    """Commit a single write: it is not sent as a transaction, which would cost twice as much."""
    faults = PlannedTable()
    outcome, attempts, _ = committed(faults, TransactionPlan("done", writes))
    assert (outcome, attempts) == ("done", [0])
    assert [call.operation for call in faults.calls] == ([operation] if operation else [])


def test_writes_with_failed_condition_are_planned_again() -> None:
    faults = PlannedTable()
    refused = TransactionPlan("never", [Put(A, {}, Exists()), BOTH[1]])
    outcome, attempts, table = committed(faults, refused, refused, TransactionPlan("done", BOTH))
    assert (outcome, attempts) == ("done", [0, 1, 2])
    assert run(table.get(B))[0] == {"pk": "p", "sk": "b", "n": 1}


def test_writes_are_planned_again_after_preparatory_transaction() -> None:
    outcome, attempts, _ = committed(
        PlannedTable(), TransactionPlan("never", BOTH[:1], again=True), TransactionPlan("done", BOTH[1:])
    )
    assert (outcome, attempts) == ("done", [0, 1])


def test_plan_after_preparatory_transaction_starts_without_delay() -> None:
    plan, _ = planning(TransactionPlan("never", BOTH[:1], again=True), TransactionPlan("done"))
    assert run(commit(FaultyTable(ManualClock()), plan, busy="busy")) == ("done", 0.0)


def adding(number: int) -> list[Write]:
    return [Update(A, Change(add={"n": number})), Update(B, Change(add={"n": 1}))]


@pytest.mark.parametrize(("second", "counted"), [(adding(1), 1), (adding(2), 3)], ids=["same writes", "other writes"])
def test_transaction_token_depends_on_its_writes(second: list[Write], counted: int) -> None:
    """After a lost response, the same writes have the same token and happen once; other writes get another token."""
    _, attempts, table = committed(
        PlannedTable("lost"), TransactionPlan("first", adding(1)), TransactionPlan("second", second)
    )
    assert attempts == [0, 1]
    item, _ = run(table.get(A))
    assert item is not None
    assert item["n"] == counted


@pytest.mark.parametrize("fault", ["throttled", "lost"])
def test_third_throttled_or_lost_transaction_raises_store_unavailable(fault: str) -> None:
    faults = PlannedTable(*[fault] * 9)
    with pytest.raises(StoreUnavailable, match=fault):
        committed(faults, TransactionPlan("never", BOTH))
    assert len(faults.calls) == 3


def test_two_throttled_transactions_are_retried() -> None:
    faults = PlannedTable("throttled", "conflict", "throttled", "conflict")
    assert committed(faults, TransactionPlan("done", BOTH))[1] == [0, 1, 2, 3, 4]


def test_eighth_conflict_of_transaction_raises_store_unavailable() -> None:
    faults = PlannedTable(*["conflict"] * 9)
    with pytest.raises(StoreUnavailable, match=r"^busy$"):
        committed(faults, TransactionPlan("never", BOTH))
    assert len(faults.calls) == 8
    assert committed(PlannedTable(*["conflict"] * 7), TransactionPlan("done", BOTH))[1] == [*range(8)]


def test_conflicting_transaction_is_retried_after_short_pause() -> None:
    plan, _ = planning(TransactionPlan("done", BOTH))
    _, seconds = run(commit(FaultyTable(ManualClock(), faults=PlannedTable("conflict")), plan, busy="busy"))
    assert 0 < seconds < 0.02


@pytest.mark.parametrize(("attempt", "most"), [(0, 0.02), (1, 0.04), (3, 0.16)])
def test_retry_delay_is_random_up_to_growing_maximum(attempt: int, most: float) -> None:
    waits = [run(retries.jitter(attempt))[1] for _ in range(100)]
    assert min(waits) < most / 4
    assert most / 2 < max(waits) <= most


# ── Fenced writes ─────────────────────────────────────────────────────────────────────────────────────────────────────

CONTEXT = ContextKey("owner", "agent", "c")
COUNT = Update(A, Change(add={"n": 1}))


def fenced(faults: PlannedTable, *writes: Write, number: int | None = 3) -> FaultyTable:
    """Commit the writes under this fence or without one, where the context's newest fence is 3; return the table."""
    table = FaultyTable(ManualClock())
    table.write_blocking(Put(keys.context_key(CONTEXT), {"fence": 3}))
    table.faults = faults
    fence = Fence(CONTEXT, number) if number is not None else None
    run(FencedWrites(table, fence).commit(*writes))
    return table


def count(table: FaultyTable) -> int | None:
    item = table.get_blocking(A)
    return item["n"] if item is not None else None


@each_row(
    ("number", "writes", "operation"),
    [
        (3, [COUNT], "transact"),
        (None, [COUNT], "write"),
        (None, [COUNT, Put(B, {})], "transact"),
        (None, [Update(A, Change(add={"n": 1}, only_if=Absent()))], "transact"),
    ],
)
def test_fenced_writes_use_expected_table_operation(number: int | None, writes: list[Write], operation: str) -> None:
    faults = PlannedTable()
    assert count(fenced(faults, *writes, number=number)) == 1
    assert [call.operation for call in faults.calls] == [operation]


def test_condition_check_alone_is_sent_as_transaction() -> None:
    faults = PlannedTable()
    fenced(faults, ConditionCheck(A, Absent()), number=None)
    assert [call.operation for call in faults.calls] == ["transact"]


def test_commit_without_writes_sends_no_request() -> None:
    faults = PlannedTable()
    fenced(faults)
    assert faults.calls == []


def test_fenced_writes_with_outdated_fence_raise_lease_lost() -> None:
    faults = PlannedTable()
    with pytest.raises(LeaseLost, match=r"^Another holder runs this context now\.$"):
        fenced(faults, COUNT, number=2)
    assert len(faults.calls) == 1


@pytest.mark.parametrize("number", [3, None])
def test_failed_condition_of_fenced_write_raises_write_refused(number: int | None) -> None:
    faults = PlannedTable()
    with pytest.raises(WriteRefused):
        fenced(faults, Put(A, {}, Exists()), number=number)
    assert len(faults.calls) == 1


@pytest.mark.parametrize("fault", ["throttled", "lost", "conflict"])
def test_fenced_transaction_takes_effect_once_after_fault(fault: str) -> None:
    faults = PlannedTable(fault)
    assert count(fenced(faults, COUNT)) == 1
    assert len(faults.calls) == 2


def test_each_commit_of_fenced_writes_has_different_token() -> None:
    table = fenced(PlannedTable(), COUNT)
    writes = FencedWrites(table, Fence(CONTEXT, 3))
    run(writes.commit(COUNT))
    run(writes.commit(COUNT, Put(B, {})))
    assert count(table) == 3


@pytest.mark.parametrize("number", [3, None])
def test_first_step_of_turn_records_progress_without_extra_request(number: int | None) -> None:
    faults = PlannedTable()
    table = fenced(faults, COUNT, number=number)
    writes = FencedWrites(table, Fence(CONTEXT, number) if number is not None else None)
    for steps in (2, 3, 4):
        run(writes.commit_step(COUNT))
        assert (len(faults.calls), count(table)) == (steps, steps)
    context = table.get_blocking(keys.context_key(CONTEXT)) or {}
    assert context.get("advanced") == number


def test_only_first_step_of_turn_records_progress() -> None:
    table = fenced(PlannedTable(), COUNT)
    writes, key = FencedWrites(table, Fence(CONTEXT, 3)), keys.context_key(CONTEXT)
    run(writes.commit_step(COUNT))
    assert (table.get_blocking(key) or {})["advanced"] == 3
    table.write_blocking(Update(key, Change(remove=("advanced",))))
    run(writes.commit_step(COUNT))
    assert "advanced" not in (table.get_blocking(key) or {})


def test_step_of_former_lease_holder_records_no_progress() -> None:
    table = fenced(PlannedTable(), COUNT)
    with pytest.raises(LeaseLost):
        run(FencedWrites(table, Fence(CONTEXT, 2)).commit_step(COUNT))
    assert (count(table), (table.get_blocking(keys.context_key(CONTEXT)) or {}).get("advanced")) == (1, None)


def test_third_throttling_of_fenced_writes_raises_store_unavailable() -> None:
    assert count(fenced(PlannedTable("throttled", "throttled"), COUNT)) == 1
    faults = PlannedTable(*["throttled"] * 3)
    with pytest.raises(StoreUnavailable, match="throttled"):
        fenced(faults, COUNT)


def test_eighth_conflict_of_fenced_writes_raises_store_unavailable() -> None:
    assert count(fenced(PlannedTable(*["conflict"] * 7), COUNT)) == 1
    with pytest.raises(StoreUnavailable, match=r"^Too many transactions write this context at once\.$"):
        fenced(PlannedTable(*["conflict"] * 8), COUNT)


def unless_refused(faults: PlannedTable, write: Put) -> tuple[FaultyTable, float]:
    """Call `write_unless_refused`; return the table, and the seconds that the call took."""
    table = FaultyTable(ManualClock(), faults=faults)
    return table, run(write_unless_refused(partial(table.write, write)))[1]


@pytest.mark.parametrize(("faults", "calls"), [((), 1), (("conflict",), 2), (("conflict",) * 7, 8)])
def test_conflict_of_single_write_is_retried(faults: tuple[str, ...], calls: int) -> None:
    planned = PlannedTable(*faults)
    table, seconds = unless_refused(planned, Put(A, {"n": 1}))
    assert ([item["n"] for item in table.items()], len(planned.calls)) == ([1], calls)
    assert (seconds > 0) == bool(faults)
    # Expect at most the sum of the backoffs, because each wait is a random part of its backoff.
    assert seconds <= sum(0.02 * 2**attempt for attempt in range(len(faults)))


def test_write_with_failed_condition_is_not_retried() -> None:
    planned = PlannedTable()
    table, seconds = unless_refused(planned, Put(A, {"n": 1}, only_if=Exists()))
    assert (table.items(), len(planned.calls), seconds) == ([], 1, 0)


def test_eighth_conflict_of_single_write_raises_store_unavailable() -> None:
    planned = PlannedTable(*["conflict"] * 8)
    with pytest.raises(StoreUnavailable, match=r"^Too many transactions write this item at once\.$"):
        unless_refused(planned, Put(A, {"n": 1}))
    assert len(planned.calls) == 8
