"""Timers: when somebody is to look after an item, should the wake-up message be lost. Pure."""

from aion_core.ports.table import Change, Equals, Item
from aion_core.tasks.contexts import Times

NO_TIMER = ("due_shard", "due_at")
"""The attributes of a timer."""


def claimed(item: Item | None, times: Times, *, is_alive: bool) -> Change | None:
    """Return the change that claims an item's expired timer; None if the item has no expired timer.

    The timer is set anew, so that no other sweep claims it before the wake-up message has had its time. An item whose
    TTL has passed loses its timer: until DynamoDB deletes it, it would be the longest overdue at each sweep.
    """
    due_at = item.get("due_at") if item is not None else None
    if due_at is None or due_at > times.now:
        return None
    as_read = Equals("due_at", due_at)
    if not is_alive:
        return Change(remove=NO_TIMER, only_if=as_read)
    return Change({"due_at": times.claimed_until}, only_if=as_read)
