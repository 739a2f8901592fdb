"""DynamoDB's documented rules for conditions, changes, limits and pages of a table. Pure.

The in-memory table and the SQLite table use them.
"""

import hashlib
import json
import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

from msgspec.structs import asdict

from aion_core.errors import StoreError
from aion_core.ports.table import (
    CONDITION_FAILED,
    FINE,
    INVALID,
    PARTITION,
    SORT,
    Absent,
    AtMost,
    Both,
    Change,
    Condition,
    ConditionCheck,
    Delete,
    Either,
    Equals,
    Exists,
    Index,
    Item,
    Key,
    MoreThan,
    NotEmpty,
    OneOf,
    Put,
    ShorterThan,
    Update,
    Write,
)

MAX_ITEM_BYTES = 400 * 1024
MAX_PAGE_BYTES = 1024 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_WRITES = 100
MAX_PARTITION_BYTES, MAX_SORT_BYTES = 2048, 1024
MAX_TOKEN_CHARACTERS = 36
MAX_DIGITS = 38
MAX_DEPTH = 32
MAX_ONE_OF = 100
_LARGE = 10**MAX_DIGITS
TOKEN_LIFE = timedelta(minutes=10)
"""Time after a transaction during which its idempotency token is known."""


# ── Values ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def plain(value: Any, depth: int = 0) -> Any:
    """Return a deep copy of an attribute's value, with enums as plain values.

    Raises StoreError or TypeError if a table cannot store it.
    """
    if depth > MAX_DEPTH:
        raise _invalid("a value is nested too deeply")
    match value:
        case str():
            _utf8_size(value)
            return str.__str__(value)
        case dict():
            depth += 1
            if value and depth > MAX_DEPTH:
                raise _invalid("a value is nested too deeply")
            return {
                name if type(name) is str and name else _name(name): (
                    member
                    # Return most values at once, because they are immutable and the table can store them unchanged.
                    if (kind := type(member)) is bytes
                    or kind is bool
                    or (kind is str and member.isascii())
                    or (kind is int and -_LARGE < member < _LARGE)
                    else plain(member, depth)
                )
                for name, member in value.items()
            }
        case list():
            return [plain(member, depth + 1) for member in value]
        case bool():
            return value
        case int():
            if abs(value) >= _LARGE and _digits(value) > MAX_DIGITS:
                raise _invalid(f"a number has more than {MAX_DIGITS} digits")
            return int(value)
        case bytes():
            return bytes(value)
        case frozenset():
            if not value or not all(isinstance(member, str) for member in value):
                raise _invalid("a set has at least one member, and texts only")
            return frozenset(plain(member) for member in value)
    raise TypeError(f"an attribute cannot be a {type(value).__name__}")


def copy_stored(value: Any) -> Any:
    """Return a deep copy of a value made by `plain`, without a second check."""
    if type(value) is dict:
        return {name: copy_stored(member) for name, member in value.items()}
    if type(value) is list:
        return [copy_stored(member) for member in value]
    return value


def value_size(value: Any) -> int:
    """Return the size of an attribute's value in bytes, by DynamoDB's rules."""
    kind = type(value)
    if kind is bytes or (kind is str and value.isascii()):
        return len(value)
    if isinstance(value, str):
        return _utf8_size(value)
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return (_digits(value) + 1) // 2 + 1 + (value < 0)
    if isinstance(value, list):
        return 3 + sum([1 + value_size(member) for member in value])
    if isinstance(value, dict):
        return 3 + sum([1 + _utf8_size(name) + value_size(member) for name, member in value.items()])
    return sum([_utf8_size(member) for member in value])


def item_size(item: Mapping[str, Any]) -> int:
    """Return the size of an item in bytes, including the names of its attributes."""
    size = 0
    for name, value in item.items():
        kind = type(value)
        size += len(name) if name.isascii() else _utf8_size(name)
        size += len(value) if kind is bytes or (kind is str and value.isascii()) else value_size(value)
    return size


def _digits(number: int) -> int:
    """Return the number of significant digits of an integer."""
    return len(str(abs(number)).rstrip("0"))


def _same(one: Any, other: Any) -> bool:
    # Distinguish bool from int, because True == 1 in Python, but a DynamoDB number never equals a BOOL.
    return (type(one) is bool) == (type(other) is bool) and one == other


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(_utf8(text))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _invalid("a text has no UTF-8") from error


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise _invalid("the name of an attribute is a text that is not empty")
    return name


def _invalid(sentence: str) -> StoreError:
    return StoreError(f"ValidationException: {sentence}")


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def holds(condition: Condition | None, item: Mapping[str, Any] | None) -> bool:
    """Return True if the condition holds for the item; None is an absent item. A condition of None always holds."""
    if condition is None:
        return True
    there = item or {}
    match condition:
        case Exists(name):
            return name in there
        case Absent(name):
            return name not in there
        case Equals(name, value):
            return name in there and _same(there[name], value)
        case AtMost(name, value):
            number = _number(there.get(name))
            return number is not None and number <= value
        case MoreThan(name, value):
            number = _number(there.get(name))
            return number is not None and number > value
        case OneOf(name, values):
            return name in there and any(_same(there[name], value) for value in values)
        case ShorterThan(name, length):
            return name not in there or ((size := _length(there[name])) is not None and size < length)
        case NotEmpty(name):
            return name in there and bool(_length(there[name]))
        case Both(conditions):
            return all(holds(each, item) for each in conditions)
        case Either(conditions):
            return any(holds(each, item) for each in conditions)


def _length(value: Any) -> int | None:
    return None if isinstance(value, int) else len(value)


def check_condition(condition: Condition) -> None:
    """Raise StoreError if DynamoDB would refuse the condition whatever the item is."""
    match condition:
        case Both(conditions) | Either(conditions):
            if not conditions:
                raise _invalid("a condition is empty")
            for each in conditions:
                check_condition(each)
        case OneOf(_, values) if not 0 < len(values) <= MAX_ONE_OF:
            raise _invalid(f"OneOf has {len(values)} values")
        case AtMost(_, value) | MoreThan(_, value) | ShorterThan(_, value) if _number(value) is None:
            raise _invalid("a condition compares with a whole number")
        case Equals(_, value):
            plain(value)


# ── Changes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def applied(change: Change, key: Key, item: Mapping[str, Any] | None) -> Item:
    """Return the item after the change; None is an absent item. The change's condition is not checked.

    Raises StoreError if an attribute has the wrong type for the change.
    """
    before = item if item is not None else {PARTITION: key.partition, SORT: key.sort}
    after = {**before, **plain(dict(change.values), -1)}
    if change.defaults:
        after |= {name: value for name, value in plain(dict(change.defaults), -1).items() if name not in before}
    if change.add or change.append or change.drop_first or change.add_members or change.remove_members:
        _combine(change, before, after)
    for name in change.remove:
        after.pop(name, None)
    return after


def _combine(change: Change, before: Mapping[str, Any], after: Item) -> None:
    """Apply to `after` the parts of a change that use old values: add a number, append to a list, change a set."""
    for name, summand in change.add.items():
        number = _number(before.get(name, 0))
        if number is None:
            raise _invalid(f"{name} is not a number")
        after[name] = plain(number + summand)
    for name, more in change.append.items():
        after[name] = [*_of_type(list, before, name, []), *plain(list(more))]
    for name in change.drop_first:
        # DynamoDB refuses this: "The document path provided in the update expression is invalid for update".
        if name not in before:
            raise _invalid(f"there is no list {name}")
        after[name] = _of_type(list, before, name, [])[1:]
    for name, members in change.add_members.items():
        after[name] = _of_type(frozenset, before, name, frozenset()) | plain(members)
    for name, members in change.remove_members.items():
        if left := _of_type(frozenset, before, name, frozenset()) - members:
            after[name] = left
        else:
            after.pop(name, None)


def _of_type(kind: type, item: Mapping[str, Any], name: str, default: Any) -> Any:
    value = item.get(name, default)
    if not isinstance(value, kind):
        raise _invalid(f"{name} is not a {kind.__name__}")
    return value


def _check_change(change: Change, *, alone: bool) -> None:
    names = [
        *change.values, *change.defaults, *change.add, *change.append, *change.drop_first, *change.remove,
        *change.add_members, *change.remove_members,
    ]  # fmt: skip
    if not names and not alone:
        raise _invalid("an update of a transaction changes nothing")
    if len(set(names)) < len(names):
        raise _invalid("an update changes an attribute twice")
    if PARTITION in names or SORT in names:
        raise _invalid("an update changes the key")
    for values in (change.values, change.defaults, change.add, change.add_members, change.remove_members):
        if values:
            plain(dict(values), -1)  # start at depth -1, because DynamoDB does not count the item
    if change.add and not all(_number(summand) is not None for summand in change.add.values()):
        raise _invalid("only a number can be added")


# ── Writes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class WriteOutcome(NamedTuple):
    """Result of a write, computed before it is stored: its success or refusal, and the item after it."""

    reason: str
    """FINE, or the reason to cancel the write."""
    after: Item | None
    """The item after the write; None if it does not exist then."""
    error: StoreError | None = None
    """The error if the reason is INVALID, else None."""


def condition_of(write: Write) -> Condition | None:
    """Return the condition of a write; None if it always holds."""
    return write.change.only_if if isinstance(write, Update) else write.only_if


def outcome(write: Write, item: Item | None, indexes: Iterable[Index] = ()) -> WriteOutcome:
    """Compute the outcome of a write. `item` is the current item with the write's key, None if it is absent."""
    if (condition := condition_of(write)) is not None and not holds(condition, item):
        return WriteOutcome(CONDITION_FAILED, item)
    try:
        match write:
            case Put(key, attributes):
                after = {PARTITION: key.partition, SORT: key.sort, **plain(dict(attributes))}
            case Update(key, change):
                after = applied(change, key, item)
            case Delete():
                return WriteOutcome(FINE, None)
            case ConditionCheck():
                return WriteOutcome(FINE, item)
        # Skip the slow exact count for small items: DynamoDB counts at most twice as many bytes as marshal writes.
        if 2 * len(marshal.dumps(after, 2)) > MAX_ITEM_BYTES and item_size(after) > MAX_ITEM_BYTES:
            raise _invalid(f"an item has more than {MAX_ITEM_BYTES} bytes")
        _check_index_keys(after, indexes)
    except StoreError as error:
        return WriteOutcome(INVALID, item, error)
    return WriteOutcome(FINE, after)


def check_write(write: Write, *, alone: bool = True) -> None:
    """Raise StoreError if DynamoDB would refuse the write whatever the item is. `alone` is False in a transaction."""
    check_key(write.key)
    if (condition := condition_of(write)) is not None:
        check_condition(condition)
    match write:
        case Update(_, change):
            _check_change(change, alone=alone)
        case Put(_, attributes) if PARTITION in attributes or SORT in attributes:
            raise _invalid("the attributes of a put include the key")


def check_transaction(writes: Sequence[Write], token: str) -> None:
    """Raise StoreError if DynamoDB would refuse the transaction whatever the items are."""
    if not 0 < len(writes) <= MAX_WRITES:
        raise _invalid(f"a transaction has {len(writes)} writes")
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise _invalid("the token is too long")
    if len({write.key for write in writes}) < len(writes):
        raise _invalid("a transaction writes an item twice")
    for write in writes:
        check_write(write, alone=False)


def check_transaction_size(items: Sequence[Item]) -> None:
    """Raise StoreError if the items of a transaction together exceed DynamoDB's limit."""
    # Count bytes only if there are enough items, because most transactions have too few to exceed the limit.
    if len(items) * MAX_ITEM_BYTES > MAX_TRANSACTION_BYTES < sum(item_size(item) for item in items):
        raise _invalid(f"the items of a transaction have more than {MAX_TRANSACTION_BYTES} bytes")


def check_key(key: Key) -> None:
    """Raise StoreError if DynamoDB refuses the key. Both parts must be texts within DynamoDB's limits."""
    _check_key_part(key.partition, MAX_PARTITION_BYTES)
    _check_key_part(key.sort, MAX_SORT_BYTES)


def _check_key_part(value: Any, most: int) -> None:
    if not isinstance(value, str) or not 0 < _utf8_size(value) <= most:
        raise _invalid(f"a part of a key is a text of 1 to {most} bytes")


def _check_index_keys(item: Item, indexes: Iterable[Index]) -> None:
    for _, partition, sort, sort_type, _ in indexes:
        if partition in item:
            _check_key_part(item[partition], MAX_PARTITION_BYTES)
        if sort in item:
            if sort_type == "S":
                _check_key_part(item[sort], MAX_SORT_BYTES)
            elif _number(item[sort]) is None:
                raise _invalid(f"{sort} is not a number")


def fingerprint(writes: Sequence[Write]) -> str:
    """Return a hash of a transaction's writes, to detect a repeated token with other writes."""
    text = json.dumps(list(writes), default=_serializable, sort_keys=True, check_circular=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _serializable(value: Any) -> Any:
    """Return a JSON form for a value that JSON lacks. Different values have different forms."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    return {"type": type(value).__name__, **asdict(value)}


# ── Indexes and pages ─────────────────────────────────────────────────────────────────────────────────────────────────


def index_entry(index: Index, item: Mapping[str, Any] | None) -> Item | None:
    """Return the item's entry in the index; None if the item lacks a key attribute of the index."""
    if item is None or index.partition not in item or index.sort not in item:
        return None
    names = (PARTITION, SORT, index.partition, index.sort, *index.copied)
    return {name: item[name] for name in names if name in item}


def check_filter(index: Index, condition: Condition | None) -> None:
    """Raise StoreError if DynamoDB refuses the filter of an index query. It must not name the index's keys."""
    if condition is not None:
        check_condition(condition)
    if {index.partition, index.sort} & set(_names(condition)):
        raise _invalid("a filter names a key of the index")


def _names(condition: Condition | None) -> Iterator[str]:
    match condition:
        case None:
            return
        case Both(conditions) | Either(conditions):
            for each in conditions:
                yield from _names(each)
        case _:
            yield cast("Exists", condition).name


def check_query(partition: str, limit: int | None) -> None:
    """Raise StoreError if DynamoDB refuses a query with this partition key and limit."""
    _check_key_part(partition, MAX_PARTITION_BYTES)
    if limit is not None and limit < 1:
        raise _invalid("a page has a limit of at least 1")


def first_page(items: Iterable[Item], limit: int | None = None) -> tuple[list[Item], bool]:
    """Return the first page of these items, and True if the caller has to read another page.

    The page ends at the limit even if no item follows, as in DynamoDB.
    """
    page: list[Item] = []
    size = 0
    for item in items:
        size += item_size(item)
        if page and size > MAX_PAGE_BYTES:
            return page, True
        page.append(item)
        if len(page) == limit:
            return page, True
    return page, False
