"""Meaning of a condition on a stored item, by DynamoDB's documented rules. Pure."""

from collections.abc import Mapping
from typing import Any

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
from aion_core.table.semantics.values import invalid, is_same, number, plain

MAX_ONE_OF = 100


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
            return name in there and is_same(there[name], value)
        case AtMost(name, value):
            found = number(there.get(name))
            return found is not None and found <= value
        case MoreThan(name, value):
            found = number(there.get(name))
            return found is not None and found > value
        case OneOf(name, values):
            return name in there and any(is_same(there[name], value) for value in values)
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
                raise invalid("a condition is empty")
            for each in conditions:
                check_condition(each)
        case OneOf(_, values) if not 0 < len(values) <= MAX_ONE_OF:
            raise invalid(f"OneOf has {len(values)} values")
        case AtMost(_, value) | MoreThan(_, value) | ShorterThan(_, value) if number(value) is None:
            raise invalid("a condition compares with a whole number")
        case Equals(_, value):
            plain(value)
