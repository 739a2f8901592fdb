"""Meaning and limits of writes and transactions, by DynamoDB's documented rules. Pure."""

import hashlib
import json
import marshal
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from aion_core.errors import StoreError
from aion_core.table.conditions import Condition
from aion_core.table.item import PARTITION, SORT, Index, Item, Key
from aion_core.table.refusals import CONDITION_FAILED, FINE, INVALID
from aion_core.table.semantics.changes import applied, check_change
from aion_core.table.semantics.conditions import check_condition, holds
from aion_core.table.semantics.values import invalid, item_size, number, plain, utf8_size
from aion_core.table.writes import ConditionCheck, Delete, Put, Update, Write

MAX_ITEM_BYTES = 400 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_WRITES = 100
MAX_PARTITION_BYTES, MAX_SORT_BYTES = 2048, 1024
MAX_TOKEN_CHARACTERS = 36


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
            raise invalid(f"an item has more than {MAX_ITEM_BYTES} bytes")
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
            check_change(change, alone=alone)
        case Put(_, attributes) if PARTITION in attributes or SORT in attributes:
            raise invalid("the attributes of a put include the key")


def check_transaction(writes: Sequence[Write], token: str) -> None:
    """Raise StoreError if DynamoDB would refuse the transaction whatever the items are."""
    if not 0 < len(writes) <= MAX_WRITES:
        raise invalid(f"a transaction has {len(writes)} writes")
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise invalid("the token is too long")
    if len({write.key for write in writes}) < len(writes):
        raise invalid("a transaction writes an item twice")
    for write in writes:
        check_write(write, alone=False)


def check_transaction_size(items: Sequence[Item]) -> None:
    """Raise StoreError if the items of a transaction together exceed DynamoDB's limit."""
    # Count bytes only if there are enough items, because most transactions have too few to exceed the limit.
    if len(items) * MAX_ITEM_BYTES > MAX_TRANSACTION_BYTES < sum(item_size(item) for item in items):
        raise invalid(f"the items of a transaction have more than {MAX_TRANSACTION_BYTES} bytes")


def check_key(key: Key) -> None:
    """Raise StoreError if DynamoDB refuses the key. Both parts must be texts within DynamoDB's limits."""
    partition, sort = key
    # Most keys are short and ASCII. Check these here, because each send checks dozens of them.
    if not (
        type(partition) is type(sort) is str
        and 0 < len(partition) <= MAX_PARTITION_BYTES
        and 0 < len(sort) <= MAX_SORT_BYTES
        and partition.isascii()
        and sort.isascii()
    ):
        check_key_part(partition, MAX_PARTITION_BYTES)
        check_key_part(sort, MAX_SORT_BYTES)


def check_key_part(value: Any, most: int) -> None:
    """Raise StoreError unless the value is a text of 1 to `most` bytes."""
    if not isinstance(value, str) or not 0 < utf8_size(value) <= most:
        raise invalid(f"a part of a key is a text of 1 to {most} bytes")


def _check_index_keys(item: Item, indexes: Iterable[Index]) -> None:
    for _, partition, sort, sort_type, _ in indexes:
        if partition in item:
            check_key_part(item[partition], MAX_PARTITION_BYTES)
        if sort in item:
            if sort_type == "S":
                check_key_part(item[sort], MAX_SORT_BYTES)
            elif number(item[sort]) is None:
                raise invalid(f"{sort} is not a number")


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
