"""The table port: conditions, changes, writes and reads, on each table and each engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.memory import table as memory
from aion_core.memory.table import MemoryTable
from aion_core.ports.schema import BY_AGENT, BY_CONTEXT, DUE, ENDS, STATE
from aion_core.ports.table import (
    CONDITION_FAILED,
    FINE,
    LAST,
    Absent,
    AtMost,
    Change,
    Check,
    Condition,
    Delete,
    Equals,
    Exists,
    Key,
    MoreThan,
    NotEmpty,
    OneOf,
    Page,
    Put,
    ShorterThan,
    Table,
    TokenReused,
    Update,
    Write,
    WriteRefused,
    both,
    either,
)
from tests.support.clock import ManualClock
from tests.support.faults import TRANSACT, Faults

pytestmark = pytest.mark.each_engine

_partitions = count()
KB = 1024
FAR = 10**10
"""A TTL that has not passed."""


@pytest.fixture
def part() -> str:
    """A partition that no other test has."""
    return f"TEST#{next(_partitions)}"


@pytest.fixture
def key(part: str) -> Key:
    return Key(part, "one")


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.params["table"]
    return name


@pytest.fixture
def case(request: pytest.FixtureRequest, engine: str) -> str:
    """The id of the case; skips it if it is one of the engine's deviations."""
    name: str = request.node.callspec.id.removeprefix(f"{engine}-").removesuffix(f"-{engine}")
    skip_deviation(engine, name)
    return name


DEVIATIONS: dict[str, dict[str, set[str]]] = {
    "moto": {
        "compares values of different types, or fails": {"t = 1", "s <= 4", "t <= 4", "s > 4"},
        "fails without an update expression": {"nothing"},
        "does not look": {
            "empty set", "long number", "long sum", "overlapping paths", "text as time", "number as listing",
            "empty shard", "empty listing", "long index partition", "long index sort", "keys", "4 MB",
        },
        "counts a little otherwise": {"400 KB"},
    },
    "ministack": {
        "replaces the value": {"add to text", "add to bool", "append to text", "append to set"},
        "does not look": {
            "partition", "sort", "no members", "empty set", "attribute twice", "overlapping paths", "long sum",
            "long index partition", "long index sort",
        },
    },
}  # fmt: skip
"""What an emulator does otherwise than AWS documents."""


def skip_deviation(engine: str, subject: str) -> None:
    for deviation, subjects in DEVIATIONS.get(engine, {}).items():
        if subject in subjects:
            pytest.skip(f"{engine} {deviation}")


async def attributes(table: Table, key: Key) -> dict[str, Any] | None:
    item = await table.get(key)
    return item and {name: value for name, value in item.items() if name not in ("pk", "sk")}


async def all_pages(page: Callable[[Any], Awaitable[Page]]) -> AsyncIterator[Page]:
    after = None
    while True:
        found = await page(after)
        yield found
        if found.next is None:
            return
        assert found.next != after
        after = found.next


# ── Items ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


VALUES = {
    "text": "ä\U0001f600",
    "empty_text": "",
    "number": -(10**37) - 1,
    "zero": 0,
    "yes": True,
    "no": False,
    "bytes": b"\x00\xff",
    "list": [1, "1", True, [], {"inner": [b"x"]}],
    "map": {"a": {}, "b": frozenset({"x"})},
    "set": frozenset({"a", "b"}),
}


async def test_item_is_returned_as_written(table: Table, key: Key) -> None:
    await table.write(Put(key, VALUES))
    item = await table.get(key)
    assert item == {"pk": key.partition, "sk": key.sort, **VALUES}
    assert {name: type(item[name]) for name in VALUES} == {name: type(value) for name, value in VALUES.items()}
    assert [type(member) for member in item["list"]] == [int, str, bool, list, dict]
    assert table.get_blocking(key) == item


async def test_get_of_absent_item_returns_none(table: Table, key: Key) -> None:
    assert await table.get(key) is None
    assert table.get_blocking(key) is None


async def test_put_replaces_whole_item(table: Table, key: Key) -> None:
    await table.write(Put(key, {"a": 1, "b": 2}))
    await table.write(Put(key, {"b": 3}))
    assert await attributes(table, key) == {"b": 3}


async def test_caller_shares_no_value_with_table(table: Table, key: Key) -> None:
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
async def test_value_of_unknown_type_is_refused(table: Table, key: Key, value: Any) -> None:
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
    # Condition; whether it holds for the item A, and for an absent item.
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
    (both(Exists("n"), Equals("s", "x")), True, False),
    (both(Exists("n"), Equals("s", "y")), False, False),
    (either(Exists("other"), Equals("s", "x")), True, False),
    (either(Exists("other"), Equals("s", "y")), False, False),
    (both(either(Absent("n"), AtMost("n", 5)), Absent("other")), True, True),
    (either(both(Absent(), Absent("n")), both(Exists(), Equals("n", 6))), False, True),
]


@pytest.mark.parametrize(("condition", "with_item", "without_item"), CONDITIONS, ids=repr)
async def test_condition_is_evaluated(
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


@pytest.mark.parametrize("condition", [both(*()), either(), OneOf("s", ())], ids=repr)
async def test_empty_condition_is_refused(table: Table, key: Key, condition: Condition) -> None:
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
async def test_change_is_applied(
    table: Table, part: str, case: str, change: Change, changed: dict[str, Any] | None, created: dict[str, Any] | None
) -> None:
    """`changed`: the attributes of A that are other than before, None if removed; None stands for the change's values."""
    await table.write(Put(Key(part, "there"), A))
    after = {**A, **(dict(change.values) if changed is None else changed)}
    expected = {name: value for name, value in after.items() if value is not None}
    item = await table.write(Update(Key(part, "there"), change), returning=True)
    assert item == {"pk": part, "sk": "there", **expected}
    assert await attributes(table, Key(part, "there")) == expected
    await table.write(Update(Key(part, "absent"), change))
    assert await attributes(table, Key(part, "absent")) == (dict(change.values) if created is None else created)


async def test_drop_first_removes_first_member(table: Table, key: Key) -> None:
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
async def test_invalid_change_is_refused(table: Table, key: Key, case: str, change: Change) -> None:
    await table.write(Put(key, A))
    for write in (table.write(Update(key, change)), table.transact([Update(key, change)], token=key.partition)):
        with pytest.raises(StoreError) as error:
            await write
        assert not isinstance(error.value, StoreUnavailable)
    assert await attributes(table, key) == A


# ── Single writes ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_write_returns_item_only_if_asked(table: Table, key: Key) -> None:
    assert await table.write(Put(key, {"a": 1}), returning=True) is None
    assert await table.write(Update(key, Change(add={"a": 1}))) is None
    assert await table.write(Delete(key)) is None


async def test_delete_returns_item_as_found(table: Table, key: Key) -> None:
    await table.write(Put(key, {"a": [1]}))
    assert await table.write(Delete(key), returning=True) == {"pk": key.partition, "sk": key.sort, "a": [1]}
    assert await table.get(key) is None
    assert await table.write(Delete(key), returning=True) is None


async def test_refused_write_changes_nothing(table: Table, key: Key) -> None:
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
async def test_key_that_no_item_can_have_is_refused(
    table: Table, engine: str, partition: str, sort: str, write: str
) -> None:
    skip_deviation(engine, "keys")
    key = Key(partition, sort)
    writes = {"put": Put(key, {}), "update": Update(key, Change(values={"a": 1})), "delete": Delete(key)}
    with pytest.raises(StoreError):
        await table.write(writes[write])  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        await table.get(key)


async def test_largest_item_and_key_are_stored(table: Table, part: str, engine: str) -> None:
    skip_deviation(engine, "400 KB")
    key = Key(part.ljust(2048, "p"), "s" * 1024)
    await table.write(Put(key, {"a": "x" * (400 * KB - 2048 - 1024 - len("pkska"))}))
    assert await table.get(key)
    with pytest.raises(StoreError):
        await table.write(Put(key, {"a": "x" * (400 * KB - 2048 - 1024 - len("pkska") + 1)}))


async def test_invalid_put_is_refused(table: Table, key: Key, engine: str) -> None:
    puts: dict[str, dict[str, Any]] = {
        "text as time": {"due_at": "x"},
        "empty listing": {"listing_at": ""},
        "large value": {"a": {"b": ["x" * 400 * KB]}},
    }
    for subject, item in puts.items():
        if any(subject in subjects for subjects in DEVIATIONS.get(engine, {}).values()):
            continue
        with pytest.raises(StoreError):
            await table.write(Put(key, item))
    assert await table.get(key) is None


async def test_concurrent_writes_of_threads_are_all_counted(table: Table, key: Key) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: table.write_blocking(Update(key, Change(add={"n": 1}))), range(40)))
        await asyncio.gather(*(table.write(Update(key, Change(add={"n": 1}))) for _ in range(10)))
    assert await attributes(table, key) == {"n": 50}


# ── Transactions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def items_of(part: str, *sorts: str) -> list[Write]:
    return [Put(Key(part, sort), {"a": sort}) for sort in sorts]


async def sorts(table: Table, part: str) -> list[str]:
    return [item["sk"] for item in (await table.query(part, " ", LAST)).items]


async def test_transaction_makes_all_writes(table: Table, part: str) -> None:
    await table.transact(items_of(part, "a", "b", "c"))
    await table.transact(
        [
            Put(Key(part, "a"), {"a": 2}),
            Update(Key(part, "b"), Change(values={"a": 3}, only_if=Equals("a", "b"))),
            Delete(Key(part, "c"), Exists()),
            Check(Key(part, "d"), Absent()),
        ]
    )
    assert [item["a"] for item in (await table.query(part, " ", LAST)).items] == [2, 3]


async def test_refused_transaction_names_each_failed_condition(table: Table, part: str) -> None:
    await table.transact(items_of(part, "a", "b"))
    with pytest.raises(WriteRefused) as refused:
        await table.transact(
            [
                Put(Key(part, "new"), {}),
                Update(Key(part, "a"), Change(values={"a": 1}, only_if=Equals("a", "other"))),
                Delete(Key(part, "b")),
                Check(Key(part, "absent"), Exists()),
            ]
        )
    assert refused.value.reasons == (FINE, CONDITION_FAILED, FINE, CONDITION_FAILED)
    assert [refused.value.failed(place) for place in range(5)] == [False, True, False, True, False]
    assert not refused.value.is_conflict
    assert [item["a"] for item in (await table.query(part, " ", LAST)).items] == ["a", "b"]


async def test_transaction_of_one_write_is_refused_alike(table: Table, key: Key) -> None:
    for token in ("", "token"):
        with pytest.raises(WriteRefused) as refused:
            await table.transact([Delete(key, Exists())], token=token)
        assert refused.value.reasons == (CONDITION_FAILED,)
    with pytest.raises(WriteRefused):
        await table.transact([Check(key, Exists())])
    await table.transact([Check(key, Absent())])


async def test_invalid_transaction_is_refused(table: Table, part: str, engine: str) -> None:
    many = items_of(part, *(f"{number:03}" for number in range(101)))
    await table.transact(many[:100])
    invalid: list[list[Write]] = [
        [],
        many,
        [Put(Key(part, "x"), {}), Delete(Key(part, "x"))],
        [Put(Key(part, "x"), {}), Check(Key(part, "x"), Absent())],
        [Put(Key(part, "x"), {}), Put(Key(part, ""), {})],
        [Put(Key(part, "x"), {}), Update(Key(part, "000"), Change(add_members={"a": frozenset("x")}))],
        [Put(Key(part, "x"), {}), Update(Key(part, "y"), Change(only_if=Absent()))],
        [Put(Key(part, "x"), {}), Put(Key(part, "y"), {"a": "x" * 400 * KB})],
    ]
    if engine != "moto":
        # moto accepts more than 4 MB.
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


async def test_repeat_with_token_succeeds_although_condition_fails(table: Table, key: Key) -> None:
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
async def test_token_is_refused_with_other_writes(table: Table, key: Key, other: Callable[[Put], list[Write]]) -> None:
    write = Put(key, {"a": 1})
    await table.transact([write], token=key.partition)
    with pytest.raises(TokenReused):
        await table.transact(other(write), token=key.partition)
    assert await attributes(table, key) == {"a": 1}
    assert await sorts(table, key.partition) == ["one"]


async def test_token_of_refused_transaction_may_be_used_again(table: Table, key: Key) -> None:
    write = Update(key, Change(values={"a": 1}, only_if=Exists()))
    with pytest.raises(WriteRefused):
        await table.transact([write], token=key.partition)
    await table.write(Put(key, {}))
    await table.transact([write], token=key.partition)
    assert await attributes(table, key) == {"a": 1}


async def test_token_is_forgotten_after_ten_minutes(table: Table, key: Key, clock: ManualClock, engine: str) -> None:
    if engine in ("ministack", "endpoint"):
        pytest.skip("the engine's own clock cannot be moved")
    for seconds, made in ((0, 1), (590, 1), (20, 2)):
        clock.move(seconds)
        await table.transact([Update(key, Change(add={"n": 1}))], token=key.partition)
        assert await attributes(table, key) == {"n": made}


async def test_repeat_after_lost_answer_is_not_made_again(table: Table, key: Key) -> None:
    if isinstance(table, DynamoDBTable):
        Faults(SimpleNamespace(_table=table)).lose_answers(TRANSACT, times=1)
    elif isinstance(table, MemoryTable):
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


class FirstAnswerLost(memory.Faults):
    lost = False

    def after(self, call: memory.Call) -> None:
        if call.operation == "transact" and not self.lost:
            self.lost = True
            raise StoreUnavailable("lost")


# ── Queries ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def letters(table: Table, part: str) -> str:
    """A partition with items in the order of UTF-8, which is neither that of UTF-16 nor of a language."""
    await table.transact(items_of(part, *reversed(LETTERS)))
    await table.write(Put(Key(f"{part}-other", "b"), {}))
    await table.write(Update(Key(part, "b"), Change(values={ENDS: FAR})))
    return part


LETTERS = ["A", "Z", "a", "b", "b#", "ba", "c", "ä", "\uff5e", "\U0001f600"]


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (" ", LAST, LETTERS),
        ("", LAST, LETTERS),
        ("a", "b", ["a", "b"]),
        ("b", f"b{LAST}", ["b", "b#", "ba"]),
        ("b", "b", ["b"]),
        ("bb", "bc", []),
        ("c", "a", []),
        ("\uff5e", LAST, ["\uff5e", "\U0001f600"]),
    ],
)
async def test_query_returns_range_in_order(
    table: Table, letters: str, first: str, last: str, found: list[str]
) -> None:
    page = await table.query(letters, first, last)
    assert [item["sk"] for item in page.items] == found
    assert page.count == len(found)
    assert page.next is None
    assert all(item["a"] == item["sk"] for item in page.items)
    page = await table.query(letters, first, last, newest_first=True, keys_only=True)
    assert list(page.items) == [
        {"pk": letters, "sk": sort, **({ENDS: FAR} if sort == "b" else {})} for sort in reversed(found)
    ]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 3, len(LETTERS)])
async def test_pages_of_query_hold_each_item_once(table: Table, letters: str, limit: int, newest_first: bool) -> None:
    pages = all_pages(
        lambda after: table.query(letters, "Z", LAST, limit=limit, newest_first=newest_first, after=after)
    )
    sizes, found = [], []
    async for page in pages:
        sizes.append(page.count)
        found += [item["sk"] for item in page.items]
        assert len(page.items) == page.count <= limit
    assert all(size == limit for size in sizes[:-1])
    assert found == (LETTERS[:0:-1] if newest_first else LETTERS[1:])


async def test_page_continues_after_its_last_item_is_deleted(table: Table, letters: str) -> None:
    page = await table.query(letters, " ", LAST, limit=3)
    await table.write(Delete(Key(letters, "a")))
    await table.write(Put(Key(letters, "aa"), {}))
    following = await table.query(letters, " ", LAST, limit=2, after=page.next)
    assert [item["sk"] for item in following.items] == ["aa", "b"]


async def test_page_holds_at_most_one_megabyte(table: Table, part: str) -> None:
    for number in range(4):
        await table.write(Put(Key(part, str(number)), {"a": "x" * 300 * KB}))
    pages = [page async for page in all_pages(lambda after: table.query(part, "0", "9", after=after, keys_only=True))]
    assert [page.count for page in pages] == [3, 1]
    assert [item["sk"] for page in pages for item in page.items] == ["0", "1", "2", "3"]


async def test_query_of_keys_returns_key_and_ttl(table: Table, part: str, clock: ManualClock) -> None:
    expires = int(clock.now().timestamp()) + 100
    await table.write(Put(Key(part, "a"), {"expires": expires, "v": 2, "due_at": 1}))
    page = await table.query(part, " ", LAST, keys_only=True)
    assert page.items == [{"pk": part, "sk": "a", "expires": expires}]


async def test_query_with_limit_of_zero_is_refused(table: Table, part: str) -> None:
    with pytest.raises(StoreError):
        await table.query(part, " ", LAST, limit=0)
    with pytest.raises(StoreError):
        await table.query("", " ", LAST)


# ── Indexes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def listed(at: str, context: str, **more: Any) -> dict[str, Any]:
    return {"listing_agent": f"{context}#agent", "listing_context": context, "listing_at": at, **more}


async def test_index_entry_has_keys_and_copied_attributes(table: Table, key: Key) -> None:
    part = key.partition
    await table.write(Put(key, listed("1", part, state="WORKING", expires=FAR, secret="x", due_shard=part, due_at=7)))
    page = await table.query_index(BY_AGENT, f"{part}#agent", "1", "1")
    keys = {"pk": part, "sk": "one"}
    assert page.items == [
        {**keys, "listing_agent": f"{part}#agent", "listing_at": "1", "state": "WORKING", "expires": FAR}
    ]
    assert (await table.query_index(BY_CONTEXT, part, "", LAST)).items == [
        {**keys, "listing_context": part, "listing_at": "1", "state": "WORKING", "expires": FAR}
    ]
    assert (await table.query_index(DUE, part, 0, 7)).items == [{**keys, "due_shard": part, "due_at": 7}]


async def test_index_follows_its_items(table: Table, part: str) -> None:
    async def due(shard: str = part) -> list[tuple[int, str]]:
        return [(item["due_at"], item["sk"]) for item in (await table.query_index(DUE, shard, 0, 10**13)).items]

    for sort, at in (("a", 1000), ("b", 90), ("c", 200)):
        await table.write(Put(Key(part, sort), {"due_shard": part, "due_at": at}))
    await table.write(Put(Key(part, "d"), {"due_shard": part}))
    await table.write(Put(Key(part, "e"), {"due_at": 1}))
    assert await due() == [(90, "b"), (200, "c"), (1000, "a")]
    await table.write(Update(Key(part, "a"), Change(values={"due_at": 100})))
    await table.write(Update(Key(part, "b"), Change(remove=("due_shard",))))
    await table.write(Update(Key(part, "d"), Change(values={"due_at": 5})))
    await table.write(Update(Key(part, "e"), Change(values={"due_shard": f"{part}-other"})))
    await table.transact([Delete(Key(part, "c"))], token=part)
    assert await due() == [(5, "d"), (100, "a")]
    assert await due(f"{part}-other") == [(1, "e")]


@pytest.mark.parametrize(
    ("first", "last", "found"), [(0, 9, [3, 5, 5, 5, 9]), (5, 8, [5, 5, 5]), (-1, 4, [3]), (6, 8, []), (9, 3, [])]
)
async def test_query_of_index_returns_range(table: Table, part: str, first: int, last: int, found: list[int]) -> None:
    await due_items(table, part)
    for newest_first in (False, True):
        page = await table.query_index(DUE, part, first, last, newest_first=newest_first)
        assert [item["due_at"] for item in page.items] == (found[::-1] if newest_first else found)
        assert page.count == len(found)


async def due_items(table: Table, part: str) -> None:
    times = {"a": 5, "b": 3, "c": 5, "d": 9, "e": 5}
    await table.transact([Put(Key(part, sort), {"due_shard": part, "due_at": at}) for sort, at in times.items()])


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_of_index_hold_each_entry_once(table: Table, part: str, limit: int, newest_first: bool) -> None:
    """Three entries have the same sort key."""
    await due_items(table, part)
    found = []
    async for page in all_pages(
        lambda after: table.query_index(DUE, part, 0, 9, limit=limit, newest_first=newest_first, after=after)
    ):
        assert len(page.items) == page.count <= limit
        found += [(item["due_at"], item["sk"]) for item in page.items]
    assert sorted(found) == [(3, "b"), (5, "a"), (5, "c"), (5, "e"), (9, "d")]
    assert [at for at, _ in found] == sorted((at for at, _ in found), reverse=newest_first)


async def test_filter_of_index_applies_after_limit(table: Table, part: str) -> None:
    states = ["WORKING", "DONE", "DONE", "WORKING", "DONE"]
    await table.transact(
        [Put(Key(part, str(n)), listed(str(n), part, state=state, expires=FAR + n)) for n, state in enumerate(states)]
    )

    async def counts(only_if: Condition, *, count_only: bool) -> list[tuple[int, int]]:
        return [
            (page.count, len(page.items))
            async for page in all_pages(
                lambda after: table.query_index(
                    BY_CONTEXT, part, "0", "9", limit=2, after=after, only_if=only_if, count_only=count_only
                )
            )
        ]

    assert await counts(Equals(STATE, "DONE"), count_only=False) == [(1, 1), (1, 1), (1, 1)]
    assert await counts(Equals(STATE, "DONE"), count_only=True) == [(1, 0), (1, 0), (1, 0)]
    assert await counts(both(OneOf(STATE, ("DONE",)), MoreThan(ENDS, FAR + 1)), count_only=False) == [
        (0, 0),
        (1, 1),
        (1, 1),
    ]
    assert await counts(Exists("secret"), count_only=True) == [(0, 0)] * 3


async def test_count_of_index_without_items(table: Table, part: str) -> None:
    await due_items(table, part)
    page = await table.query_index(DUE, part, 4, 9, count_only=True)
    assert (page.count, list(page.items), page.next) == (4, [], None)


# ── Scans ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("segments", [1, 4])
async def test_scan_returns_each_item_in_one_segment(table: Table, part: str, segments: int) -> None:
    expected = [(f"{part}#{number}", sort) for number in range(12) for sort in ("a", "b")]
    for partition, sort in expected:
        await table.write(Put(Key(partition, sort), {"state": "x", "large": "x" * 60 * KB}))
    found, pages = [], 0
    for segment in range(segments):
        async for page in all_pages(
            lambda after, segment=segment: table.scan(  # type: ignore[misc]
                segment=segment, segments=segments, after=after, attributes=("sk", "pk", "state"), consistent=True
            )
        ):
            pages += 1
            mine = [item for item in page.items if item.get("pk", "").startswith(f"{part}#")]
            assert all(item.keys() == {"pk", "sk", "state"} for item in mine)
            found += [(item["pk"], item["sk"]) for item in mine]
    assert sorted(found) == sorted(expected)
    assert pages > 1


async def test_scan_returns_whole_items(table: Table, key: Key) -> None:
    await table.write(Put(key, VALUES))
    found = [
        item
        async for page in all_pages(lambda after: table.scan(after=after))
        for item in page.items
        if item["pk"] == key.partition
    ]
    assert found == [{"pk": key.partition, "sk": key.sort, **VALUES}]
