"""Timers: when somebody is to look after an item, should the wake-up message be lost. Pure."""

from datetime import datetime

from aion_core.ports.table import Change, Equals, Item
from aion_core.tasks.contexts import CLAIM_TERMS

NO_TIMER = ("due_shard", "due_at")
"""The attributes of a timer."""


def lease_end(now: datetime, lease_seconds: float) -> int:
    """Return when a lease of now runs out, and so the timer of a wake-up message that is enqueued now; milliseconds."""
    return int(now.timestamp() * 1000) + int(lease_seconds * 1000)


def claim(item: Item | None, now: datetime, *, is_alive: bool, lease_seconds: float) -> Change | None:
    """Return the change that claims an item's expired timer; None if there is no expired timer to claim.

    The timer is set anew, so that no other sweep claims it before the wake-up message has had its time. An item whose
    TTL has passed loses its timer: until DynamoDB deletes it, it would be the longest overdue at each sweep.
    """
    due_at = item.get("due_at") if item is not None else None
    if due_at is None or due_at > int(now.timestamp() * 1000):
        return None
    as_read = Equals("due_at", due_at)
    if not is_alive:
        return Change(remove=NO_TIMER, only_if=as_read)
    return Change(values={"due_at": lease_end(now, lease_seconds * CLAIM_TERMS)}, only_if=as_read)
