"""Refusals, fingerprints, filters and pages of the table semantics."""

from collections.abc import Callable
from typing import Any

import pytest

from aion_core.engine.agent_options import PushEvents
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table.conditions import Absent, AtMost, Both, Either, Equals, Exists, OneOf, ShorterThan
from aion_core.table.item import Index, Item, Key
from aion_core.table.refusals import (
    CAPACITY_EXCEEDED,
    CONDITION_FAILED,
    FINE,
    INVALID,
    THROTTLED,
    WriteRefused,
    canceled,
)
from aion_core.table.semantics import changes, conditions, pages, values, writes
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write
from tests.support.rows import each_row

KEY = Key("p", "s")
INDEX = Index("by_owner", "owner", "at", "N", ("state",))
BY_TEXT = Index("by_text", "owner", "text")


@each_row(
    ("reasons", "kind", "text"),
    [
        ((FINE, THROTTLED), StoreUnavailable, "TransactionCanceledException: None, ThrottlingError"),
        ((CAPACITY_EXCEEDED,), StoreUnavailable, "TransactionCanceledException: ProvisionedThroughputExceeded"),
        ((INVALID, FINE), StoreError, "TransactionCanceledException: ValidationError, None"),
        ((CONDITION_FAILED, FINE), WriteRefused, "ConditionalCheckFailed, None"),
        ((FINE,), StoreError, "TransactionCanceledException: None"),
    ],
)
def test_reasons_of_canceled_transaction_decide_raised_error(
    reasons: tuple[str, ...], kind: type[Exception], text: str
) -> None:
    error = canceled(reasons)
    assert (type(error), str(error)) == (kind, text)


@each_row(
    ("refused", "text"),
    [
        (lambda: changes.applied(Change(append={"n": [1]}), KEY, {"n": 5}), "n is not a list"),
        (lambda: changes.applied(Change(add={"t": 1}), KEY, {"t": ""}), "t is not a number"),
        (lambda: changes.applied(Change(drop_first=("l",)), KEY, {}), "there is no list l"),
        (lambda: pages.check_query("p", 0), "a page has a limit of at least 1"),
        (lambda: pages.check_query("", 1), "a part of a key is a text of 1 to 2048 bytes"),
        (lambda: writes.check_key(Key("p", "")), "a part of a key is a text of 1 to 1024 bytes"),
        (lambda: pages.check_filter(INDEX, AtMost("at", 5)), "a filter names a key of the index"),
        (
            lambda: pages.check_filter(INDEX, Both((Exists("x"), Exists("owner")))),
            "a filter names a key of the index",
        ),
        (lambda: pages.check_filter(INDEX, Either(())), "a condition is empty"),
        (lambda: conditions.check_condition(OneOf("x", ())), "OneOf has 0 values"),
        (lambda: conditions.check_condition(Both((Exists(), Either((OneOf("x", ()),))))), "OneOf has 0 values"),
        (lambda: conditions.check_condition(Equals("x", "\ud800")), "a text has no UTF-8"),
        (lambda: conditions.check_condition(AtMost("x", True)), "a condition compares with a whole number"),
        (lambda: writes.check_transaction([], ""), "a transaction has 0 writes"),
        (lambda: writes.check_transaction([Put(KEY, {})], "t" * 37), "the token is too long"),
        (lambda: writes.check_transaction([Put(KEY, {})] * 2, ""), "a transaction writes an item twice"),
        (
            lambda: writes.check_transaction([Update(KEY, Change(only_if=Exists()))], ""),
            "an update of a transaction changes nothing",
        ),
        (lambda: writes.check_write(Put(KEY, {"pk": "p"})), "the attributes of a put include the key"),
        (lambda: writes.check_write(Update(KEY, Change({"sk": "s"}))), "an update changes the key"),
        (
            lambda: writes.check_write(Update(KEY, Change({"a": 1}, remove=("a",)))),
            "an update changes an attribute twice",
        ),
        (lambda: writes.check_write(Update(KEY, Change(add={"a": True}))), "only a number can be added"),
        (
            lambda: writes.check_transaction_size([{"a": "x" * (2**18 - 1)}] * 15 + [{"a": "x" * 2**18}]),
            "the items of a transaction have more than 4194304 bytes",
        ),
        (lambda: values.plain(frozenset()), "a set has at least one member, and texts only"),
        (lambda: values.plain({"": 1}), "the name of an attribute is a text that is not empty"),
        (lambda: values.plain({1: 1}), "the name of an attribute is a text that is not empty"),
        (lambda: values.plain("\ud800"), "a text has no UTF-8"),
        (lambda: values.plain(int("1" * 39)), "a number has more than 38 digits"),
    ],
)
def test_invalid_table_request_error_states_reason(refused: Callable[[], object], text: str) -> None:
    with pytest.raises(StoreError) as raised:
        refused()
    assert str(raised.value) == f"ValidationException: {text}"


@pytest.mark.parametrize("around", [lambda value: {"a": value}, lambda value: [value]], ids=["map", "list"])
def test_table_value_is_nested_at_most_32_deep(around: Callable[[Any], Any]) -> None:
    value: Any = ""
    for _ in range(32):
        value = around(value)
    assert values.plain(value) == value
    with pytest.raises(StoreError, match=r"^ValidationException: a value is nested too deeply$"):
        values.plain(around(value))


def checked(value: Any) -> Any:
    writes.check_write(Update(KEY, Change({"a": value})))
    return value


@pytest.mark.parametrize(
    "stored",
    [
        lambda value: changes.applied(Change({"a": value}), KEY, {})["a"],
        lambda value: changes.applied(Change(defaults={"a": value}), KEY, {})["a"],
        checked,
    ],
    ids=["values", "defaults", "check"],
)
def test_changed_attribute_is_nested_at_most_32_deep(stored: Callable[[Any], Any]) -> None:
    """Count the levels of nesting below the item; the item itself is no level."""
    value: Any = ""
    for _ in range(32):
        value = {"a": value}
    assert stored(value) == value
    with pytest.raises(StoreError, match=r"^ValidationException: a value is nested too deeply$"):
        stored({"a": value})


def test_attribute_name_may_be_an_enum_member() -> None:
    assert values.plain({PushEvents.ALL: 1}) == {"all": 1}


def test_table_value_of_unknown_type_is_named_in_error() -> None:
    with pytest.raises(TypeError, match=r"^an attribute cannot be a float$"):
        values.plain(1.5)


def test_table_requests_at_exact_limits_are_accepted() -> None:
    pages.check_filter(INDEX, Both((Exists("state"), Either((Absent("x"),)))))
    pages.check_filter(INDEX, None)
    pages.check_query("p" * 2048, 1)
    writes.check_key(Key("p" * 2048, "s" * 1024))
    conditions.check_condition(OneOf("x", ("v",) * 100))
    writes.check_transaction([Put(Key("p", str(number)), {}) for number in range(100)], "t" * 36)
    writes.check_transaction_size([{"a": "x" * (2**18 - 1)}] * 16)
    assert values.plain(int("1" * 38 + "0")) == int("1" * 38 + "0")


def test_write_without_condition_is_always_allowed() -> None:
    assert conditions.holds(None, None)
    assert conditions.holds(None, {"a": 1})


def test_length_condition_is_false_for_number() -> None:
    assert not conditions.holds(ShorterThan("n", 3), {"n": 5})


@each_row(
    ("value", "size"),
    [
        (True, 1), (0, 1), (7, 2), (-7, 3), (100, 2), (12345, 4), ("é", 2), (b"123", 3), ([], 3), (["a", 1], 8),
        ({}, 3), ({"ab": "c"}, 7), (frozenset({"ab", "c"}), 3),
    ],
)  # fmt: skip
def test_table_value_size_is_counted_in_bytes(value: object, size: int) -> None:
    assert values.value_size(value) == size
    assert values.item_size({"name": value}) == 4 + size
    assert values.item_size({"né": value}) == 3 + size


# ── Fingerprints ──────────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("one", "other"),
    [
        (ConditionCheck(KEY, Exists("a")), ConditionCheck(KEY, Absent("a"))),
        (Put(KEY, {"a": 1}), Put(KEY, {"b": 1})),
        (Put(KEY, {"a": 1}), Put(KEY, {"a": "1"})),
        (Put(KEY, {"a": 1}), Put(KEY, {"a": True})),
        (Put(KEY, {"a": frozenset("xy")}), Put(KEY, {"a": frozenset("xz")})),
        (Put(KEY, {"a": ["x", "y"]}), Put(KEY, {"a": ["y", "x"]})),
        (Put(KEY, {"a": 1}), Put(KEY, {"a": 1}, Exists())),
        (Update(KEY, Change({"a": 1})), Update(KEY, Change(defaults={"a": 1}))),
    ],
)
def test_different_writes_have_different_fingerprints(one: Write, other: Write) -> None:
    assert writes.fingerprint([one]) != writes.fingerprint([other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Put(KEY, {"a": 1, "b": 2}), Put(KEY, {"b": 2, "a": 1})),
        (Put(KEY, {"a": frozenset("xyz")}), Put(KEY, {"a": frozenset("zyx")})),
        (Put(KEY, {"a": PushEvents.ALL}), Put(KEY, {"a": "all"})),
    ],
)
def test_equal_writes_have_equal_fingerprints(one: Write, other: Write) -> None:
    assert writes.fingerprint([one]) == writes.fingerprint([other])


# ── Indexes and pages ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_table_index_contains_only_items_with_both_keys() -> None:
    item = {"pk": "p", "sk": "s", "owner": "o", "at": 5, "more": 1}
    entry = {"pk": "p", "sk": "s", "owner": "o", "at": 5}
    assert pages.index_entry(INDEX, item) == entry
    assert pages.index_entry(INDEX, item | {"state": "x"}) == entry | {"state": "x"}
    assert pages.index_entry(INDEX, {"owner": "o"}) is None
    assert pages.index_entry(INDEX, {"at": 5}) is None
    assert pages.index_entry(INDEX, None) is None


ITEM = {"pk": "p", "sk": "s", "a": 1}


@each_row(
    ("write", "before", "expected"),
    [
        (Put(KEY, {"b": 2}), ITEM, (FINE, {"pk": "p", "sk": "s", "b": 2})),
        (Update(KEY, Change({"b": 2})), ITEM, (FINE, ITEM | {"b": 2})),
        (Update(KEY, Change({"b": 2})), None, (FINE, {"pk": "p", "sk": "s", "b": 2})),
        (Delete(KEY), ITEM, (FINE, None)),
        (ConditionCheck(KEY, Exists()), ITEM, (FINE, ITEM)),
        (ConditionCheck(KEY, Absent()), ITEM, (CONDITION_FAILED, ITEM)),
        (Put(KEY, {}, Exists()), None, (CONDITION_FAILED, None)),
    ],
)
def test_table_write_has_expected_outcome_for_item(
    write: Write, before: Item | None, expected: tuple[str, Item | None]
) -> None:
    found = writes.outcome(write, before)
    assert (found.reason, found.after, found.error) == (*expected, None)


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (Put(KEY, {"b": "x" * 409_600}), "an item has more than 409600 bytes"),
        (Update(KEY, Change(append={"a": [1]})), "a is not a list"),
        (Put(KEY, {"at": "5"}), "at is not a number"),
    ],
)
def test_invalid_table_write_leaves_item_unchanged(write: Write, text: str) -> None:
    found = writes.outcome(write, ITEM, [INDEX])
    assert (found.reason, found.after, str(found.error)) == (INVALID, ITEM, f"ValidationException: {text}")


@each_row(
    ("item", "reason"),
    [
        ({"owner": "o", "at": 5}, FINE),
        ({"owner": ""}, INVALID),
        ({"owner": "o" * 2049}, INVALID),
        ({"at": "5"}, INVALID),
        ({"at": True}, INVALID),
        ({"text": "t" * 1024}, FINE),
        ({"text": "t" * 1025}, INVALID),
        ({"text": 5}, INVALID),
    ],
)
def test_write_of_invalid_index_key_is_refused(item: Item, reason: str) -> None:
    assert writes.outcome(Put(KEY, item), None, [INDEX, BY_TEXT]).reason == reason


def test_query_page_ends_at_size_or_item_limit() -> None:
    half = {"a": "x" * (2**19 - 1)}
    last: list[Item] = [{"a": ""}]
    assert pages.first_page([half, half]) == ([half, half], False)
    assert pages.first_page([half, half, *last]) == ([half, half], True)
    assert pages.first_page(last * 3, 2) == (last * 2, True)
    assert pages.first_page(last * 2, 2) == (last * 2, True)
    assert pages.first_page([{"a": "x" * 2**21}]) == ([{"a": "x" * 2**21}], False)
    assert pages.first_page([]) == ([], False)


def test_change_of_copy_does_not_change_stored_value() -> None:
    stored = {"texts": ["one", {"two": [b"2", 2, True]}], "set": frozenset({"a"})}
    copy = values.copy_stored(stored)
    assert copy == stored
    copy["texts"][1]["two"].append("changed")
    copy["texts"].append("changed")
    assert stored == {"texts": ["one", {"two": [b"2", 2, True]}], "set": frozenset({"a"})}
