"""Head of a task (state, last event number, fencing token): its item, and the effect of an event. Pure."""

from datetime import UTC, datetime
from typing import cast

from msgspec.structs import replace

from aion_core.engine.agent_options import PushEvents
from aion_core.engine.records import Head
from aion_core.engine.task.states import HAS_NOT_ENDED, TERMINAL, may_follow, state_name
from aion_core.engine.task.subscribers import subscriber_attributes, subscribers_as_read
from aion_core.engine.task.timestamps import timestamp_of
from aion_core.errors import InvalidTransition, StoreCorrupt
from aion_core.protocol.types import Event, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table import keys
from aion_core.table.conditions import Absent, Both, Condition, Equals
from aion_core.table.item import Item
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.schema import BY_AGENT, BY_CONTEXT
from aion_core.table.times import milliseconds
from aion_core.table.writes import Change


def advance(head: Head, event: Event) -> Head:
    """Return the task's head after the event: the event number grows by one, and a status event sets the state.

    Raises InvalidTransition if the task has ended, or if its state does not allow the event's state.
    """
    if head.state in TERMINAL:
        raise InvalidTransition(f"The task is {state_name(head.state)}: nothing can follow.")
    if isinstance(event, TaskStatusUpdateEvent | Task):
        if head.generation and not may_follow(head.state, event.status.state):
            raise InvalidTransition(f"{state_name(event.status.state)} does not follow {state_name(head.state)}.")
        return replace(
            head, generation=head.generation + 1, state=event.status.state, timestamp=timestamp_of(event.status)
        )
    return replace(head, generation=head.generation + 1)


def is_over(head: Head | None) -> bool:
    """Return True if the task can have no further turn: it has ended, or it expired in the queue."""
    return head is None or head.state in TERMINAL


def head_of(key: TaskKey, item: Item) -> Head:
    """Parse a task's head (state, event number, fence) from its item. Raises StoreCorrupt if the item is invalid."""
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
            calls=item.get("calls", 0),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise StoreCorrupt("The head of a task cannot be read.") from error


def head_item(head: Head) -> Item:
    """Return the attributes of a task's head, without its key and TTL."""
    return {
        "agent": head.context.agent,
        "context_id": head.context.context_id,
        "state": TaskState.Name(head.state),
        "timestamp": milliseconds(head.timestamp),
        "generation": head.generation,
        "fence": head.fence,
        BY_AGENT.partition: keys.listing_agent(head.context.owner, head.context.agent),
        BY_CONTEXT.partition: keys.listing_context(head.context),
        BY_AGENT.sort: listing_at(head),
        **subscriber_attributes(head),
        **({"calls": head.calls} if head.calls else {}),
    }


def listing_at(head: Head) -> str:
    """Return a task's sort key in the list indexes: its status time and its id."""
    return keys.listing_at(milliseconds(head.timestamp), head.key.task_id)


def moved(head: Head, after: Head, *, expires: int | None = None, fence: bool = True) -> Change:
    """Return the change of a task's head item from `head` to `after`. `expires` extends the item's TTL."""
    values = {
        "generation": after.generation,
        "state": TaskState.Name(after.state),
        "timestamp": milliseconds(after.timestamp),
        "fence": after.fence,
    }
    if after.push_epoch != head.push_epoch:
        values |= subscriber_attributes(after)
    if expires is not None:
        values["expires"] = expires
    return Change(values, only_if=as_read(head, fence=fence))


def with_calls_as_read(change: Change, head: Head) -> Change:
    """Return the change of a task's head, refused if the task has begun a remote call since `head` was read."""
    calls = Equals("calls", head.calls) if head.calls else Absent("calls")
    return replace(change, only_if=Both((change.only_if, calls) if change.only_if is not None else (calls,)))


def fenced(head: Head, fence: int) -> Change:
    """Return the change to set a new fence in a task's head. Writes under earlier leases then fail.

    The change fails if the event number has changed since `head` was read: the holder of an expired lease may have
    recorded one more event.
    """
    return Change({"fence": fence}, only_if=Both((Equals("generation", head.generation), HAS_NOT_ENDED)))


def as_read(head: Head, *, fence: bool) -> Condition:
    """Return the condition that the task's event number, subscribers and (if `fence`) fence equal those of `head`."""
    mine = (Equals("fence", head.fence),) if fence else ()
    return Both((Equals("generation", head.generation), *mine, subscribers_as_read(head)))
