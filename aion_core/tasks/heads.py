"""A task's head as an item, and its changes. Pure."""

from datetime import UTC, datetime
from typing import cast

from aion_core.ports import ContextKey, Head, PushEvents, TaskKey
from aion_core.ports.table import Absent, Change, Equals, Exists, Item, both, either
from aion_core.protocol.types import TaskState


def head_of(key: TaskKey, item: Item) -> Head:
    """Return the head that the item holds."""
    return Head(
        key=key,
        context=ContextKey(key.owner, item["agent"], item["context_id"]),
        state=cast("TaskState", TaskState.Value(item["state"])),
        timestamp=datetime.fromtimestamp(item["timestamp"] / 1000, UTC),
        generation=item["generation"],
        fence=item["fence"],
        push_epoch=item.get("push_epoch", 0),
        push_events=PushEvents(item["push_events"]) if "push_events" in item else None,
    )


def subscribed(head: Head, after: Head) -> Change:
    """Return the change by which every later commit of the task knows its new subscriber."""
    events = {"push_events": after.push_events.value} if after.push_events is not None else {}
    return Change(
        values={"push_epoch": after.push_epoch, **events},
        only_if=both(Exists(), either(Absent("push_epoch"), Equals("push_epoch", head.push_epoch))),
    )


def without_subscribers(head: Head, after: Head) -> Change:
    """Return the change by which later commits know of no subscriber, unless one was added since the head was read."""
    return Change(
        values={"push_epoch": after.push_epoch},
        remove=("push_events",),
        only_if=Equals("push_epoch", head.push_epoch),
    )
