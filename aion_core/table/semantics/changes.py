"""Meaning of a change of an item, by DynamoDB's documented rules. Pure."""

from collections.abc import Mapping
from typing import Any

from aion_core.table.item import PARTITION, SORT, Item, Key
from aion_core.table.semantics.values import invalid, number, plain
from aion_core.table.writes import Change


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
        old = number(before.get(name, 0))
        if old is None:
            raise invalid(f"{name} is not a number")
        after[name] = plain(old + summand)
    for name, more in change.append.items():
        after[name] = [*_of_type(list, before, name, []), *plain(list(more))]
    for name in change.drop_first:
        # DynamoDB refuses this: "The document path provided in the update expression is invalid for update".
        if name not in before:
            raise invalid(f"there is no list {name}")
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
        raise invalid(f"{name} is not a {kind.__name__}")
    return value


def check_change(change: Change, *, alone: bool) -> None:
    """Raise StoreError if DynamoDB would refuse this change. `alone` is False in a transaction."""
    names = [
        *change.values, *change.defaults, *change.add, *change.append, *change.drop_first, *change.remove,
        *change.add_members, *change.remove_members,
    ]  # fmt: skip
    if not names and not alone:
        raise invalid("an update of a transaction changes nothing")
    if len(set(names)) < len(names):
        raise invalid("an update changes an attribute twice")
    if PARTITION in names or SORT in names:
        raise invalid("an update changes the key")
    for values in (change.values, change.defaults, change.add, change.add_members, change.remove_members):
        if values:
            plain(dict(values), -1)  # start at depth -1, because DynamoDB does not count the item
    if change.add and not all(number(summand) is not None for summand in change.add.values()):
        raise invalid("only a number can be added")
