"""Heads of tasks (state, last event number, fence): their changes by events and by push subscribers. Pure."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from aion_core.errors import StoreCorrupt, TooManyPushConfigs
from aion_core.ports import MAX_PUSH_CONFIGS, ContextKey, Head, PushConfig, PushEvents, TaskKey
from aion_core.ports.table import Absent, Both, Change, Condition, Either, Equals, Exists, Item, OneOf
from aion_core.protocol.types import Event, Message, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import lifecycle

T = TypeVar("T", covariant=True)


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
        )
    except (KeyError, ValueError, TypeError) as error:
        raise StoreCorrupt("The head of a task cannot be read.") from error


def state_in(states: frozenset[TaskState]) -> Condition:
    """Return the condition that the task is in one of these states."""
    return OneOf("state", tuple(sorted(TaskState.Name(state) for state in states)))


IS_RUNNING = state_in(lifecycle.RUNNING)
HAS_NOT_ENDED = state_in(lifecycle.RUNNING | lifecycle.INTERRUPTED)


def subscribers_as_read(head: Head) -> Condition:
    """Return the condition that no push config was added since the head was read: a commit must know all of them."""
    return Either((Absent("push_epoch"), Equals("push_epoch", head.push_epoch)))


def as_read(head: Head, *, fence: bool) -> Condition:
    """Return the condition that the task has the event number, push subscribers and (with `fence`) fence of `head`."""
    mine = (Equals("fence", head.fence),) if fence else ()
    return Both((Equals("generation", head.generation), *mine, subscribers_as_read(head)))


def moved(head: Head, after: Head, *, expires: int | None = None, fence: bool = True) -> Change:
    """Return the change of a task's head item from `head` to `after`. `expires` extends the item's TTL."""
    values = {
        "generation": after.generation,
        "state": TaskState.Name(after.state),
        "timestamp": int(after.timestamp.timestamp() * 1000),
        "fence": after.fence,
    }
    if after.push_epoch != head.push_epoch:
        values |= subscriber_attributes(after)
    if expires is not None:
        values["expires"] = expires
    return Change(values, only_if=as_read(head, fence=fence))


def fenced(fence: int) -> Change:
    """Return the change that sets a new fence in a task's head, so that writes of earlier lease holders fail."""
    return Change({"fence": fence}, only_if=HAS_NOT_ENDED)


def subscriber_attributes(head: Head) -> dict[str, str | int]:
    """Return the push subscriber attributes of a task's head item; empty without subscribers."""
    if head.push_events is None:
        return {}
    return {"push_epoch": head.push_epoch, "push_events": head.push_events.value}


def subscribed(head: Head, after: Head, *, while_running: bool = False) -> Change:
    """Return the change that adds a push subscriber to an existing task; with `while_running`, to a running one."""
    exists = IS_RUNNING if while_running else Exists()
    return Change(subscriber_attributes(after), only_if=Both((exists, subscribers_as_read(head))))


def without_subscribers(head: Head) -> Change:
    """Return the change that removes a task's push subscribers, unless one was added since `head` was read."""
    return Change(
        {"push_epoch": head.push_epoch + 1},
        remove=("push_events",),
        only_if=Equals("push_epoch", head.push_epoch),
    )


# ── Events ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class NewEvent(Struct, frozen=True):
    """A new event to write to a task's log."""

    task: TaskKey
    generation: int
    event: Event
    message: Message | None = None
    """The client's message recorded by the event."""
    request: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    token: str = ""
    """Identifies the write of the event, so that a repeat after a lost response finds it."""
    notifies: bool = False
    """True if a push subscriber may want the event."""


class HeadMove(Struct, frozen=True):
    """A change of a task's head item, and the head after the change."""

    change: Change
    after: Head


class Transition(Struct, Generic[T], frozen=True):
    """The changes of one transaction (context record, task heads, new events), and its outcome for the caller."""

    outcome: T
    context: Change | None = None
    heads: tuple[HeadMove, ...] = ()
    events: tuple[NewEvent, ...] = ()
    recorded_message: tuple[TaskKey, str] | None = None
    """Task and turn id of a formerly waiting message: the transaction records it in the log."""


def new_event(head: Head, generation: int, event: Event, **more: Any) -> NewEvent:
    """Return a new event for a task's log. It notifies if a push subscriber of `head` wants it."""
    return NewEvent(head.key, generation, event, notifies=has_subscriber_for(head, event), **more)


# ── Subscribers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def wants(events: PushEvents, event: Event) -> bool:
    """Return True if a push subscriber to these kinds of events receives the event."""
    match event:
        case TaskStatusUpdateEvent():
            return True
        case TaskArtifactUpdateEvent():
            return events is not PushEvents.STATUS
        case _:
            return events is PushEvents.ALL


def has_subscriber_for(head: Head, event: Event) -> bool:
    """Return True if a push subscriber of the task with this head receives the event."""
    return head.push_events is not None and wants(head.push_events, event)


def head_with_subscriber(head: Head, config: PushConfig) -> Head:
    """Return the task's head with one more push subscriber."""
    order = list(PushEvents)
    before = [head.push_events] if head.push_events is not None else []
    widest = max([config.events, *before], key=order.index)
    return replace(head, push_epoch=head.push_epoch + 1, push_events=widest)


def check_room(config_ids: Collection[str], config: PushConfig) -> None:
    """Raise TooManyPushConfigs if a task with these push configs has no room for another."""
    if config.id not in config_ids and len(config_ids) >= MAX_PUSH_CONFIGS:
        raise TooManyPushConfigs(
            f"The task has {MAX_PUSH_CONFIGS} push notification configs already. Delete or replace one first."
        )
