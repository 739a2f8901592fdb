"""A task's head: read from its item, and its changes, with what a commit expects of it. Pure."""

from datetime import UTC, datetime
from typing import cast

from aion_core.errors import StoreCorrupt
from aion_core.ports import ContextKey, Head, PushEvents, TaskKey
from aion_core.ports.table import Absent, Change, Condition, Equals, Exists, Item, OneOf, both, either
from aion_core.protocol.types import TaskState
from aion_core.tasks import lifecycle


def head_of(key: TaskKey, item: Item) -> Head:
    """Return the head that the item holds; raises StoreCorrupt."""
    try:
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
    except (KeyError, ValueError, TypeError) as error:
        raise StoreCorrupt("The head of a task cannot be read.") from error


def state_in(states: frozenset[TaskState]) -> Condition:
    """Return the condition that the task is in one of these states."""
    return OneOf("state", tuple(sorted(TaskState.Name(state) for state in states)))


IS_RUNNING = state_in(lifecycle.RUNNING)
HAS_NOT_ENDED = state_in(lifecycle.RUNNING | lifecycle.INTERRUPTED)


def subscribers_as_read(head: Head) -> Condition:
    """Return the condition that nobody has subscribed since the head was read: a commit has to know all subscribers."""
    return either(Absent("push_epoch"), Equals("push_epoch", head.push_epoch))


def as_read(head: Head, *, fence: bool) -> Condition:
    """Return the condition that the task has not gone on since the head was read; nor its lease, with `fence`."""
    mine = (Equals("fence", head.fence),) if fence else ()
    return both(Equals("generation", head.generation), *mine, subscribers_as_read(head))


def moved(head: Head, after: Head, *, expires: int | None = None, fence: bool = True) -> Change:
    """Move the head on by the events between; `expires` stores it for longer."""
    values = {
        "generation": after.generation,
        "state": TaskState.Name(after.state),
        "timestamp": int(after.timestamp.timestamp() * 1000),
        "fence": after.fence,
    }
    if after.push_epoch != head.push_epoch:
        values |= subscribers(after)
    if expires is not None:
        values["expires"] = expires
    return Change(values, only_if=as_read(head, fence=fence))


def fenced(fence: int) -> Change:
    """Refuse the writes of earlier holders: the task's turn has a new one."""
    return Change({"fence": fence}, only_if=HAS_NOT_ENDED)


def subscribers(head: Head) -> dict[str, str | int]:
    """Return the attributes on subscribers by push notifications; empty without any."""
    if head.push_events is None:
        return {}
    return {"push_epoch": head.push_epoch, "push_events": head.push_events.value}


def subscribed(head: Head, after: Head, *, while_running: bool = False) -> Change:
    """Note a subscriber, of a task that exists, or, `while_running`, has not come to an end or an interrupt."""
    exists = IS_RUNNING if while_running else Exists()
    return Change(subscribers(after), only_if=both(exists, subscribers_as_read(head)))


def without_subscribers(head: Head, after: Head) -> Change:
    """Note that nobody subscribes any more, unless somebody has subscribed meanwhile."""
    return Change(
        {"push_epoch": after.push_epoch}, remove=("push_events",), only_if=Equals("push_epoch", head.push_epoch)
    )
