"""Faults of the memory table that tests use: throttling, lost responses, index lag, transactions in steps."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table.conditions import Exists
from aion_core.table.item import LAST, Index, Item, Key
from aion_core.table.refusals import (
    CAPACITY_EXCEEDED,
    CONDITION_FAILED,
    CONFLICT,
    FINE,
    INVALID,
    THROTTLED,
    WriteRefused,
)
from aion_core.table.schema import TIMERS
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write
from tests.support.clock import ManualClock
from tests.support.faulty_table import FaultyTable, TableCall, TableFaults

A, B, C = (Key("p", sort) for sort in "abc")


class Planned(TableFaults):
    """Faults that a test sets."""

    def __init__(self) -> None:
        self.calls: list[TableCall] = []
        self.refused: dict[Key, str] = {}
        self.down = self.answers_lost = False
        self.seen = slice(-1, None)
        self.midway = asyncio.Event()
        self.released = asyncio.Event()
        self.released.set()

    def before(self, call: TableCall) -> None:
        self.calls.append(call)
        if self.down:
            raise StoreUnavailable("throttled")

    def after(self, call: TableCall) -> None:
        if self.answers_lost:
            raise StoreUnavailable("lost")

    def reasons(self, writes: Sequence[Write]) -> Sequence[str]:
        return [self.refused.get(write.key, FINE) for write in writes]

    def visible(self, index: Index, versions: Sequence[Item | None]) -> Sequence[Item | None]:
        return versions[self.seen]

    async def partway(self, writes: Sequence[Write]) -> None:
        self.midway.set()
        await self.released.wait()

    def read(self, item: Item) -> Item:
        return {**item, "v": 99} if item["sk"] == "unreadable" else item


@pytest.fixture
def faults() -> Planned:
    return Planned()


@pytest.fixture
def table(clock: ManualClock, faults: Planned) -> FaultyTable:
    return FaultyTable(clock, faults=faults)


async def sorts(table: FaultyTable) -> list[str]:
    return [item["sk"] for item in (await table.query("p", "", LAST)).items]


async def test_throttled_table_call_changes_nothing(table: FaultyTable, faults: Planned) -> None:
    faults.down = True
    for call in (
        table.get(A),
        table.query("p", "", LAST),
        table.query_index(TIMERS, "p", 0, 1),
        table.scan(),
        table.write(Put(A, {})),
        table.transact([Put(A, {})]),
    ):
        with pytest.raises(StoreUnavailable):
            await call
    assert [call.operation for call in faults.calls] == ["get", "query", "query_index", "scan", "write", "transact"]
    assert table.items() == []


async def test_table_write_is_made_although_its_response_is_lost(table: FaultyTable, faults: Planned) -> None:
    faults.answers_lost = True
    with pytest.raises(StoreUnavailable):
        await table.write(Put(A, {}))
    with pytest.raises(StoreUnavailable):
        await table.transact([Put(B, {})])
    assert [item["sk"] for item in table.items()] == ["a", "b"]


@pytest.mark.parametrize("reason", [THROTTLED, CAPACITY_EXCEEDED])
async def test_throttled_item_makes_transaction_raise_store_unavailable(
    table: FaultyTable, faults: Planned, reason: str
) -> None:
    faults.refused[A] = reason
    with pytest.raises(StoreUnavailable):
        await table.transact([ConditionCheck(B, Exists()), Put(A, {})], token="t")
    faults.refused.clear()
    await table.transact([Put(A, {})], token="t")
    assert await sorts(table) == ["a"]


async def test_transaction_conflict_is_reported_with_failed_conditions(table: FaultyTable, faults: Planned) -> None:
    faults.refused[A] = CONFLICT
    with pytest.raises(WriteRefused) as refused:
        await table.transact([Put(A, {}), Put(B, {})])
    assert refused.value.reasons == (CONFLICT, FINE)
    assert refused.value.is_conflict
    with pytest.raises(WriteRefused) as refused:
        await table.transact([Put(A, {}), ConditionCheck(B, Exists())])
    assert refused.value.reasons == (CONFLICT, CONDITION_FAILED)
    assert not refused.value.is_conflict
    with pytest.raises(WriteRefused) as refused:
        table.write_blocking(Put(A, {}))
    assert refused.value.reasons == (CONFLICT,)
    faults.refused[A] = INVALID
    with pytest.raises(StoreError) as error:
        await table.transact([Put(A, {}), ConditionCheck(B, Exists())])
    assert not isinstance(error.value, StoreUnavailable)
    assert table.items() == []


async def test_partly_executed_transaction_is_visible_only_to_queries(table: FaultyTable, faults: Planned) -> None:
    await table.transact([Put(A, {"n": 1}), Put(B, {"n": 1})])
    faults.midway.clear()
    faults.released.clear()
    writes = [Update(key, Change(add={"n": 1})) for key in (A, B)]
    transaction = asyncio.create_task(table.transact(writes, token="t"))
    await faults.midway.wait()
    assert [item["n"] for item in (await table.query("p", "", LAST)).items] == [2, 1]
    assert [item["n"] for item in (await table.get(A), await table.get(B)) if item] == [1, 1]
    for write in (table.write(Delete(A)), table.write(Delete(B)), table.transact([Put(C, {}), Delete(B)])):
        with pytest.raises(WriteRefused) as refused:
            await write
        assert refused.value.is_conflict
    with pytest.raises(StoreUnavailable):
        await table.transact(writes, token="t")
    faults.released.set()
    await transaction
    assert [item["n"] for item in (await table.get(A), await table.get(B)) if item] == [2, 2]
    await table.transact(writes, token="t")
    assert [item["n"] for item in table.items()] == [2, 2]


async def test_transaction_of_cancelled_caller_is_completed(table: FaultyTable, faults: Planned) -> None:
    faults.released.clear()
    transaction = asyncio.create_task(table.transact([Put(A, {}), Put(B, {}), Put(C, {})]))
    await faults.midway.wait()
    transaction.cancel()
    with pytest.raises(asyncio.CancelledError):
        await transaction
    assert await sorts(table) == ["a", "b", "c"]
    await table.write(Delete(A))


@pytest.mark.parametrize(
    ("seen", "old", "new"),
    [
        (slice(-1, None), [], ["a"]),
        (slice(0, 1), ["a"], []),
        (slice(None), ["a"], ["a"]),
        (slice(0, 0), [], []),
    ],
    ids=["current", "old", "both", "neither"],
)
async def test_simulated_index_lag_returns_chosen_versions_of_item(
    table: FaultyTable, faults: Planned, clock: ManualClock, seen: slice, old: list[str], new: list[str]
) -> None:
    async def due(shard: str) -> list[str]:
        return [item["sk"] for item in (await table.query_index(TIMERS, shard, 0, 9)).items]

    faults.index_lag = timedelta(seconds=2)
    await table.write(Put(A, {"due_shard": "old", "due_at": 1}))
    clock.move(3)
    await table.write(Update(A, Change(values={"due_shard": "new"})))
    faults.seen = seen
    assert (await due("old"), await due("new")) == (old, new)
    clock.move(1)
    assert (await due("old"), await due("new")) == (old, new)
    clock.move(1)
    assert (await due("old"), await due("new")) == ([], ["a"])


async def test_lagging_index_misses_recent_changes(table: FaultyTable, faults: Planned, clock: ManualClock) -> None:
    faults.index_lag, faults.seen = timedelta(seconds=2), slice(0, 1)
    await table.write(Put(A, {"due_shard": "s", "due_at": 1}))
    assert (await table.query_index(TIMERS, "s", 0, 9)).count == 0
    clock.move(2)
    await table.write(Delete(A))
    assert (await table.query_index(TIMERS, "s", 0, 9)).count == 1
    assert await table.get(A) is None
    faults.index_lag = timedelta(0)
    assert (await table.query_index(TIMERS, "s", 0, 9)).count == 0


async def test_small_pages_of_memory_table_contain_each_item_once(table: FaultyTable, faults: Planned) -> None:
    await table.transact([Put(key, {"due_shard": "s", "due_at": 1}) for key in (A, B, C)])
    faults.page_items = 1
    found, after = [], None
    while True:
        page = await table.query("p", "", LAST, limit=2, after=after)
        assert page.count <= 1
        found += [item["sk"] for item in page.items]
        if (after := page.next) is None:
            break
    assert found == ["a", "b", "c"]
    assert (await table.query_index(TIMERS, "s", 0, 9)).count == 1
    assert (await table.scan()).count == 1


async def test_simulated_read_fault_does_not_change_stored_item(table: FaultyTable) -> None:
    key = Key("p", "unreadable")
    await table.write(Put(key, {"v": 1}))
    assert [item and item["v"] for item in (await table.get(key), *(await table.query("p", "", LAST)).items)] == [
        99,
        99,
    ]
    assert table.items() == [{"pk": "p", "sk": "unreadable", "v": 1}]


async def test_delete_expired_deletes_expired_items(table: FaultyTable, clock: ManualClock) -> None:
    now = int(clock.now().timestamp())
    await table.transact(
        [
            Put(A, {"expires": now + 1, "due_shard": "s", "due_at": 1}),
            Put(B, {"expires": now + 2}),
            Put(C, {"expires": now + 99}),
            Put(Key("p", "d"), {"expires": "1"}),
        ]
    )
    assert table.expired(clock.now()) == []
    clock.move(5)
    assert await sorts(table) == ["a", "b", "c", "d"]
    assert table.expired(clock.now()) == [A, B]
    assert table.delete_expired(clock.now(), [B, C]) == [B]
    assert table.delete_expired(clock.now()) == [A]
    assert await sorts(table) == ["c", "d"]
    assert (await table.query_index(TIMERS, "s", 0, 9)).count == 0
