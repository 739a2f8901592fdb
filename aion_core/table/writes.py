"""Writes of a table: put, update, delete, and the check of an item that stays as it is."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from aion_core.table.conditions import Condition
from aion_core.table.item import Key


class Put(Struct, frozen=True):
    """Write that creates an item or replaces the whole item."""

    key: Key
    item: Mapping[str, Any]
    """The item's attributes without the key."""
    only_if: Condition | None = None


class Change(Struct, frozen=True):
    """A change of some attributes of an item. It does not include the item's key."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Attributes to set, with their new values."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Attributes and the values to set if they are absent."""
    add: Mapping[str, int] = field(default_factory=dict)
    """Numbers to add; an absent attribute counts as 0."""
    append: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Members to append to lists; an absent attribute counts as an empty list."""
    drop_first: tuple[str, ...] = ()
    """Names of lists to remove the first member from."""
    remove: tuple[str, ...] = ()
    """Names of attributes to remove, if they exist."""
    add_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Members to add to sets; an absent attribute counts as an empty set."""
    remove_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Members to remove from sets, if they exist; an empty set is removed."""
    only_if: Condition | None = None


class Update(Struct, frozen=True):
    """Write that changes some attributes of an item. An absent item is created."""

    key: Key
    change: Change


class Delete(Struct, frozen=True):
    """Write that deletes the item, if it exists."""

    key: Key
    only_if: Condition | None = None


class ConditionCheck(Struct, frozen=True):
    """Part of a transaction that changes nothing. If its condition fails, the whole transaction fails."""

    key: Key
    only_if: Condition


SingleWrite = Put | Update | Delete
Write = SingleWrite | ConditionCheck
