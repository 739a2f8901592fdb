"""Table port: items, conditions, changes and single writes, on each table and database."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table.conditions import (
    Absent,
    AtMost,
    Both,
    Condition,
    Either,
    Equals,
    Exists,
    MoreThan,
    NotEmpty,
    OneOf,
    ShorterThan,
)
from aion_core.table.item import Key
from aion_core.table.port import Table
from aion_core.table.refusals import CONDITION_FAILED, WriteRefused
from aion_core.table.writes import Change, Delete, Put, Update
from tests.runtime.contract.tables import DEVIATIONS, KB, VALUES, attributes, skip_deviation

pytestmark = pytest.mark.each_database

# ── Items ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_table_item_is_returned_as_written(table: Table, key: Key) -> None:
    await table.write(Put(key, VALUES))
    item = await table.get(key)
    assert item == {"pk": key.partition, "sk": key.sort, **VALUES}
    assert {name: type(item[name]) for name in VALUES} == {name: type(value) for name, value in VALUES.items()}
    assert [type(member) for member in item["list"]] == [int, str, bool, list, dict]
    assert table.get_blocking(key) == item


async def test_get_of_missing_table_item_returns_none(table: Table, key: Key) -> None:
    assert await table.get(key) is None
    assert table.get_blocking(key) is None


async def test_put_replaces_whole_table_item(table: Table, key: Key) -> None:
    await table.write(Put(key, {"a": 1, "b": 2}))
    await table.write(Put(key, {"b": 3}))
    assert await attributes(table, key) == {"b": 3}


async def test_changing_written_or_read_values_does_not_change_table(table: Table, key: Key) -> None:
    written = {"list": [{"n": 1}]}
    await table.write(Put(key, written))
    written["list"][0]["n"] = 2
    change: dict[str, Any] = {"more": [1]}
    changed = await table.write(Update(key, Change(values=change)), returning=True)
    change["more"].append(2)
    assert changed is not None
    changed["more"].append(3)
    read = await table.get(key)
    assert read is not None
    read["list"].append("mine")
    assert await attributes(table, key) == {"list": [{"n": 1}], "more": [1]}


@pytest.mark.parametrize("value", [None, 1.5, {"inner": 1.5}, [None], (1,)], ids=repr)
async def test_table_value_of_unknown_type_is_refused(table: Table, key: Key, value: Any) -> None:
    with pytest.raises(TypeError):
        await table.write(Put(key, {"a": value}))
    assert await table.get(key) is None


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────

A: dict[str, Any] = {
    "n": 5,
    "s": "x",
    "t": True,
    "b": b"x",
    "l": [1, 2],
    "m": {"k": 1},
    "set": frozenset({"a"}),
    "e": [],
}
CONDITIONS: list[Any] = [
    # Each condition, with its value for the item A and for an absent item.
    (Exists(), True, False),
    (Exists("n"), True, False),
    (Exists("other"), False, False),
    (Absent(), False, True),
    (Absent("n"), False, True),
    (Absent("other"), True, True),
    (Equals("n", 5), True, False),
    (Equals("n", 6), False, False),
    (Equals("n", "5"), False, False),
    (Equals("s", "x"), True, False),
    (Equals("s", b"x"), False, False),
    (Equals("b", b"x"), True, False),
    (Equals("t", True), True, False),
    (Equals("t", False), False, False),
    pytest.param(Equals("t", 1), False, False, id="t = 1"),
    (Equals("other", ""), False, False),
    (AtMost("n", 5), True, False),
    (AtMost("n", 4), False, False),
    pytest.param(AtMost("s", 4), False, False, id="s <= 4"),
    pytest.param(AtMost("t", 4), False, False, id="t <= 4"),
    (MoreThan("n", 4), True, False),
    (MoreThan("n", 5), False, False),
    pytest.param(MoreThan("s", 4), False, False, id="s > 4"),
    (OneOf("s", ("y", "x")), True, False),
    (OneOf("s", ("y",)), False, False),
    (OneOf("n", ("5",)), False, False),
    (ShorterThan("l", 3), True, True),
    (ShorterThan("l", 2), False, True),
    (ShorterThan("set", 2), True, True),
    (ShorterThan("set", 1), False, True),
    (ShorterThan("e", 1), True, True),
    (ShorterThan("other", 0), True, True),
    (NotEmpty("l"), True, False),
    (NotEmpty("set"), True, False),
    (NotEmpty("e"), False, False),
    (NotEmpty("other"), False, False),
    (Both((Exists("n"), Equals("s", "x"))), True, False),
    (Both((Exists("n"), Equals("s", "y"))), False, False),
    (Either((Exists("other"), Equals("s", "x"))), True, False),
    (Either((Exists("other"), Equals("s", "y"))), False, False),
    (Both((Either((Absent("n"), AtMost("n", 5))), Absent("other"))), True, True),
    (Either((Both((Absent(), Absent("n"))), Both((Exists(), Equals("n", 6))))), False, True),
]


@pytest.mark.parametrize(("condition", "with_item", "without_item"), CONDITIONS, ids=repr)
async def test_table_write_succeeds_only_if_condition_holds(
    table: Table, part: str, case: str, condition: Condition, with_item: bool, without_item: bool
) -> None:
    await table.write(Put(Key(part, "there"), A))
    for sort, expected in (("there", with_item), ("absent", without_item)):
        write = Update(Key(part, sort), Change(values={"written": True}, only_if=condition))
        if expected:
            await table.write(write)
        else:
            with pytest.raises(WriteRefused) as refused:
                await table.write(write)
            assert refused.value.reasons == (CONDITION_FAILED,)
            assert not refused.value.is_conflict
        written = await attributes(table, Key(part, sort)) or {}
        assert ("written" in written) == expected


@pytest.mark.parametrize("condition", [Both(()), Either(()), OneOf("s", ())], ids=repr)
async def test_empty_table_write_condition_is_refused(table: Table, key: Key, condition: Condition) -> None:
    await table.write(Put(key, A))
    with pytest.raises(StoreError):
        await table.write(Delete(key, condition))


# ── Changes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "changed", "created"),
    [
        (Change(values={"n": 1, "new": "x"}), {"n": 1, "new": "x"}, {"n": 1, "new": "x"}),
        (Change(values={"expires": 1, "state": "x", "until": 2, "size": 3, "a.b": 4}), None, None),
        (Change(defaults={"n": 9, "new": []}), {"new": []}, {"n": 9, "new": []}),
        (Change(add={"n": 2, "new": -3}), {"n": 7, "new": -3}, {"n": 2, "new": -3}),
        (Change(append={"l": ["x"], "new": ["y"]}), {"l": [1, 2, "x"], "new": ["y"]}, {"l": ["x"], "new": ["y"]}),
        (Change(append={"l": ()}), {}, {"l": []}),
        (Change(remove=("n", "other")), {"n": None}, {}),
        (Change(add_members={"set": frozenset("ab")}), {"set": frozenset("ab")}, {"set": frozenset("ab")}),
        (Change(remove_members={"set": frozenset("b")}), {}, {}),
        (Change(remove_members={"set": frozenset("ab")}), {"set": None}, {}),
        pytest.param(Change(), {}, {}, id="nothing"),
        (Change(values={"n": 1}, add={"k": 1}, append={"l": [3]}, remove=("s",), drop_first=()),
         {"n": 1, "k": 1, "l": [1, 2, 3], "s": None}, {"n": 1, "k": 1, "l": [3]}),
    ],
)  # fmt: skip
async def test_table_item_update_is_applied(
    table: Table, part: str, case: str, change: Change, changed: dict[str, Any] | None, created: dict[str, Any] | None
) -> None:
    """`changed` has the expected attributes of item A, with None for a removed one; default: `change.values`."""
    await table.write(Put(Key(part, "there"), A))
    after = {**A, **(dict(change.values) if changed is None else changed)}
    expected = {name: value for name, value in after.items() if value is not None}
    item = await table.write(Update(Key(part, "there"), change), returning=True)
    assert item == {"pk": part, "sk": "there", **expected}
    assert await attributes(table, Key(part, "there")) == expected
    await table.write(Update(Key(part, "absent"), change))
    assert await attributes(table, Key(part, "absent")) == (dict(change.values) if created is None else created)


async def test_drop_first_change_removes_first_list_element(table: Table, key: Key) -> None:
    await table.write(Put(key, {"l": ["a", "b"]}))
    for left in (["b"], [], []):
        assert await table.write(Update(key, Change(drop_first=("l",))), returning=True) == {
            "pk": key.partition, "sk": key.sort, "l": left,
        }  # fmt: skip


INVALID_CHANGES = {
    "add to text": Change(add={"s": 1}),
    "add to bool": Change(add={"t": 1}),
    "append to text": Change(append={"s": ["x"]}),
    "append to set": Change(append={"set": ["x"]}),
    "members to list": Change(add_members={"l": frozenset("x")}),
    "members to text": Change(add_members={"s": frozenset("x")}),
    "members from list": Change(remove_members={"l": frozenset("x")}),
    "no members": Change(add_members={"new": frozenset()}),
    "empty set": Change(values={"x": frozenset()}),
    "attribute twice": Change(values={"x": 1}, remove=("x",)),
    "overlapping paths": Change(append={"l": [3]}, drop_first=("l",)),
    "partition": Change(values={"pk": "x"}),
    "sort": Change(remove=("sk",)),
    "long number": Change(values={"x": 10**38 + 1}),
    "long sum": Change(add={"n": 10**38}),
    "large value": Change(values={"x": "x" * 400 * KB}),
    "large list": Change(append={"l": ["x" * 400 * KB]}),
    "text as time": Change(values={"due_at": "x"}),
    "number as listing": Change(values={"listing_at": 1}),
    "empty shard": Change(values={"due_shard": ""}),
    "empty listing": Change(values={"listing_at": ""}),
    "long index partition": Change(values={"listing_agent": "x" * 2049}),
    "long index sort": Change(values={"listing_at": "x" * 1025}),
}


@pytest.mark.parametrize("change", INVALID_CHANGES.values(), ids=INVALID_CHANGES)
async def test_invalid_table_item_update_is_refused(table: Table, key: Key, case: str, change: Change) -> None:
    await table.write(Put(key, A))
    for write in (table.write(Update(key, change)), table.transact([Update(key, change)], token=key.partition)):
        with pytest.raises(StoreError) as error:
            await write
        assert not isinstance(error.value, StoreUnavailable)
    assert await attributes(table, key) == A


# ── Single writes ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_table_write_returns_item_on_request(table: Table, key: Key) -> None:
    assert await table.write(Put(key, {"a": 1}), returning=True) is None
    assert await table.write(Update(key, Change(add={"a": 1}))) is None
    assert await table.write(Delete(key)) is None


async def test_table_delete_returns_deleted_item(table: Table, key: Key) -> None:
    await table.write(Put(key, {"a": [1]}))
    assert await table.write(Delete(key), returning=True) == {"pk": key.partition, "sk": key.sort, "a": [1]}
    assert await table.get(key) is None
    assert await table.write(Delete(key), returning=True) is None


async def test_refused_table_write_changes_nothing(table: Table, key: Key) -> None:
    await table.write(Put(key, {"a": 1}))
    for write in (
        Put(key, {"a": 2}, only_if=Absent()),
        Delete(key, only_if=Equals("a", 2)),
        Update(key, Change(values={"a": 2}, only_if=Equals("a", 2))),
    ):
        with pytest.raises(WriteRefused):
            await table.write(write)
        with pytest.raises(WriteRefused):
            table.write_blocking(write)
    assert await attributes(table, key) == {"a": 1}


@pytest.mark.parametrize("write", ["put", "update", "delete"])
@pytest.mark.parametrize(
    ("partition", "sort"), [("", "s"), ("p", ""), ("p" * 2049, "s"), ("p", "s" * 1025), ("ä" * 1025, "s")]
)
async def test_invalid_table_key_is_refused(table: Table, database: str, partition: str, sort: str, write: str) -> None:
    skip_deviation(database, "keys")
    key = Key(partition, sort)
    writes = {"put": Put(key, {}), "update": Update(key, Change(values={"a": 1})), "delete": Delete(key)}
    with pytest.raises(StoreError):
        await table.write(writes[write])  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        await table.get(key)


async def test_largest_table_item_and_key_are_stored(table: Table, part: str, database: str) -> None:
    skip_deviation(database, "400 KB")
    key = Key(part.ljust(2048, "p"), "s" * 1024)
    await table.write(Put(key, {"a": "x" * (400 * KB - 2048 - 1024 - len("pkska"))}))
    assert await table.get(key)
    with pytest.raises(StoreError):
        await table.write(Put(key, {"a": "x" * (400 * KB - 2048 - 1024 - len("pkska") + 1)}))


async def test_invalid_table_put_is_refused(table: Table, key: Key, database: str) -> None:
    puts: dict[str, dict[str, Any]] = {
        "text as time": {"due_at": "x"},
        "empty listing": {"listing_at": ""},
        "large value": {"a": {"b": ["x" * 400 * KB]}},
    }
    for subject, item in puts.items():
        if any(subject in subjects for subjects in DEVIATIONS.get(database, {}).values()):
            continue
        with pytest.raises(StoreError):
            await table.write(Put(key, item))
    assert await table.get(key) is None


async def test_concurrent_writes_of_threads_are_all_counted(table: Table, key: Key) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: table.write_blocking(Update(key, Change(add={"n": 1}))), range(40)))
        await asyncio.gather(*(table.write(Update(key, Change(add={"n": 1}))) for _ in range(10)))
    assert await attributes(table, key) == {"n": 50}
