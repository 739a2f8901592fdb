"""Table port: transactions and tokens, on each table and database."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table.conditions import Absent, Equals, Exists
from aion_core.table.item import LAST, Key
from aion_core.table.port import Table
from aion_core.table.refusals import CONDITION_FAILED, FINE, TokenReused, WriteRefused
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write
from tests.runtime.contract.faults import TRANSACT, Faults
from tests.runtime.contract.tables import KB, attributes, items_of
from tests.support.clock import ManualClock
from tests.support.faulty_table import FaultyTable, TableCall, TableFaults

# ── Transactions ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def sorts(table: Table, part: str) -> list[str]:
    return [item["sk"] for item in (await table.query(part, " ", LAST)).items]


async def test_transaction_makes_all_writes(table: Table, part: str) -> None:
    await table.transact(items_of(part, "a", "b", "c"))
    await table.transact(
        [
            Put(Key(part, "a"), {"a": 2}),
            Update(Key(part, "b"), Change(values={"a": 3}, only_if=Equals("a", "b"))),
            Delete(Key(part, "c"), Exists()),
            ConditionCheck(Key(part, "d"), Absent()),
        ]
    )
    assert [item["a"] for item in (await table.query(part, " ", LAST)).items] == [2, 3]


async def test_refused_transaction_reports_each_failed_condition(table: Table, part: str) -> None:
    await table.transact(items_of(part, "a", "b"))
    with pytest.raises(WriteRefused) as refused:
        await table.transact(
            [
                Put(Key(part, "new"), {}),
                Update(Key(part, "a"), Change(values={"a": 1}, only_if=Equals("a", "other"))),
                Delete(Key(part, "b")),
                ConditionCheck(Key(part, "absent"), Exists()),
            ]
        )
    assert refused.value.reasons == (FINE, CONDITION_FAILED, FINE, CONDITION_FAILED)
    assert [refused.value.failed(place) for place in range(5)] == [False, True, False, True, False]
    assert not refused.value.is_conflict
    assert [item["a"] for item in (await table.query(part, " ", LAST)).items] == ["a", "b"]


async def test_failed_transaction_of_one_write_reports_condition(table: Table, key: Key) -> None:
    for token in ("", "token"):
        with pytest.raises(WriteRefused) as refused:
            await table.transact([Delete(key, Exists())], token=token)
        assert refused.value.reasons == (CONDITION_FAILED,)
    with pytest.raises(WriteRefused):
        await table.transact([ConditionCheck(key, Exists())])
    await table.transact([ConditionCheck(key, Absent())])


async def test_invalid_transaction_is_refused(table: Table, part: str, database: str) -> None:
    many = items_of(part, *(f"{number:03}" for number in range(101)))
    await table.transact(many[:100])
    invalid: list[list[Write]] = [
        [],
        many,
        [Put(Key(part, "x"), {}), Delete(Key(part, "x"))],
        [Put(Key(part, "x"), {}), ConditionCheck(Key(part, "x"), Absent())],
        [Put(Key(part, "x"), {}), Put(Key(part, ""), {})],
        [Put(Key(part, "x"), {}), Update(Key(part, "000"), Change(add_members={"a": frozenset("x")}))],
        [Put(Key(part, "x"), {}), Update(Key(part, "y"), Change(only_if=Absent()))],
        [Put(Key(part, "x"), {}), Put(Key(part, "y"), {"a": "x" * 400 * KB})],
    ]
    if database != "moto":
        # Test the limit of 4 MB on the other databases only, because moto accepts larger transactions.
        invalid.append([Put(Key(part, f"large-{number}"), {"a": "x" * 399 * KB}) for number in range(11)])
    for place, writes in enumerate(invalid):
        with pytest.raises(StoreError) as error:
            await table.transact(writes, token=f"{part}-{place}")
        assert not isinstance(error.value, StoreUnavailable), writes
    assert len(await sorts(table, part)) == 100


# ── Tokens ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_transaction_with_token_is_made_once(table: Table, key: Key) -> None:
    writes = [Update(key, Change(add={"n": 1}, append={"l": [{"a": 1, "b": True}]}))]
    for _ in range(3):
        await table.transact(writes, token=f"once-{key.partition}")
    assert await attributes(table, key) == {"n": 1, "l": [{"a": 1, "b": True}]}
    await table.transact(writes, token=f"twice-{key.partition}")
    assert (await attributes(table, key) or {})["n"] == 2


async def test_repeated_transaction_with_token_succeeds_despite_failing_condition(table: Table, key: Key) -> None:
    for _ in range(2):
        await table.transact([Put(key, {"a": 1}, only_if=Absent())], token=key.partition)


@pytest.mark.parametrize(
    "other",
    [
        lambda write: [replace(write, item={"a": 2})],
        lambda write: [replace(write, item={"a": True})],
        lambda write: [replace(write, item={"a": "1"})],
        lambda write: [replace(write, only_if=Absent())],
        lambda write: [replace(write, key=Key(write.key.partition, "other"))],
        lambda write: [write, Delete(Key(write.key.partition, "other"))],
        lambda write: [Update(write.key, Change(values=write.item))],
    ],
)
async def test_transaction_token_is_refused_with_different_writes(
    table: Table, key: Key, other: Callable[[Put], list[Write]]
) -> None:
    write = Put(key, {"a": 1})
    await table.transact([write], token=key.partition)
    with pytest.raises(TokenReused):
        await table.transact(other(write), token=key.partition)
    assert await attributes(table, key) == {"a": 1}
    assert await sorts(table, key.partition) == ["one"]


async def test_token_of_refused_transaction_can_be_used_again(table: Table, key: Key) -> None:
    write = Update(key, Change(values={"a": 1}, only_if=Exists()))
    with pytest.raises(WriteRefused):
        await table.transact([write], token=key.partition)
    await table.write(Put(key, {}))
    await table.transact([write], token=key.partition)
    assert await attributes(table, key) == {"a": 1}


async def test_transaction_token_is_forgotten_after_ten_minutes(
    table: Table, key: Key, clock: ManualClock, database: str
) -> None:
    if database in ("ministack", "endpoint"):
        pytest.skip("the database's own clock cannot be moved")
    for seconds, made in ((0, 1), (590, 1), (20, 2)):
        clock.move(seconds)
        await table.transact([Update(key, Change(add={"n": 1}))], token=key.partition)
        assert await attributes(table, key) == {"n": made}


async def test_transaction_repeated_after_lost_response_is_made_once(table: Table, key: Key) -> None:
    if isinstance(table, DynamoDBTable):
        Faults(SimpleNamespace(_table=table)).lose_answers(TRANSACT, times=1)
    elif isinstance(table, FaultyTable):
        table.faults = FirstAnswerLost()
    else:
        pytest.skip("no answer of a file is lost")
    writes = [Update(key, Change(add={"n": 1}, only_if=Absent()))]
    with pytest.raises(StoreUnavailable):
        await table.transact(writes, token=key.partition)
    with pytest.raises(TokenReused):
        await table.transact([Update(key, Change(add={"n": 2}))], token=key.partition)
    await table.transact(writes, token=key.partition)
    assert await attributes(table, key) == {"n": 1}


class FirstAnswerLost(TableFaults):
    lost = False

    def after(self, call: TableCall) -> None:
        if call.operation == "transact" and not self.lost:
            self.lost = True
            raise StoreUnavailable("lost")
