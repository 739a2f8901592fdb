"""A task's head, the events that move it on, and its subscribers by push notifications. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, cast

from aion_core.errors import StoreCorrupt, TooManyPushConfigs
from aion_core.ports import MAX_PUSH_CONFIGS, ContextKey, Head, PushConfig, PushEvents, TaskKey
from aion_core.ports.table import Absent, Both, Change, Condition, Either, Equals, Exists, Item, OneOf
from aion_core.protocol.types import Event, Message, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import lifecycle

T = TypeVar("T", covariant=True)


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
    return Either((Absent("push_epoch"), Equals("push_epoch", head.push_epoch)))


def as_read(head: Head, *, fence: bool) -> Condition:
    """Return the condition that the task has not gone on since the head was read; nor its lease, with `fence`."""
    mine = (Equals("fence", head.fence),) if fence else ()
    return Both((Equals("generation", head.generation), *mine, subscribers_as_read(head)))


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
    return Change(subscribers(after), only_if=Both((exists, subscribers_as_read(head))))


def without_subscribers(head: Head, after: Head) -> Change:
    """Note that nobody subscribes any more, unless somebody has subscribed meanwhile."""
    return Change(
        {"push_epoch": after.push_epoch}, remove=("push_events",), only_if=Equals("push_epoch", head.push_epoch)
    )


# ── Events ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be appended to a task's log."""

    task: TaskKey
    generation: int
    event: Event
    message: Message | None = None
    """The client's message that the event takes in."""
    request: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    token: str = ""
    """Tells the event's own writer from others, after an answer was lost."""
    notifies: bool = False
    """True if a subscriber by push notifications may want it."""


@dataclass(frozen=True, slots=True)
class HeadMove:
    """A change of a task's head, and the head after it."""

    change: Change
    after: Head


@dataclass(frozen=True, slots=True)
class Transition(Generic[T]):
    """The changes of one transaction, and its outcome."""

    outcome: T
    context: Change | None = None
    heads: tuple[HeadMove, ...] = ()
    events: tuple[NewEvent, ...] = ()
    taken_in: tuple[TaskKey, str] | None = None
    """The task and turn whose waiting message is in the log now."""


def new_event(head: Head, after: Head, event: Event, **more: Any) -> NewEvent:
    """Return the event of a commit that knows the subscribers of `head`."""
    return NewEvent(head.key, after.generation, event, notifies=has_subscriber_for(head, event), **more)


# ── Subscribers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def wants(events: PushEvents, event: Event) -> bool:
    """True if the event is one of these."""
    match event:
        case TaskStatusUpdateEvent():
            return True
        case TaskArtifactUpdateEvent():
            return events is not PushEvents.STATUS
        case _:
            return events is PushEvents.ALL


def has_subscriber_for(head: Head, event: Event) -> bool:
    """True if a subscriber may want the event."""
    return head.push_events is not None and wants(head.push_events, event)


def head_with_subscriber(head: Head, config: PushConfig) -> Head:
    """Return the head with this subscriber too."""
    order = list(PushEvents)
    before = [head.push_events] if head.push_events is not None else []
    widest = max([config.events, *before], key=order.index)
    return replace(head, push_epoch=head.push_epoch + 1, push_events=widest)


def head_without_subscribers(head: Head) -> Head:
    """Return the head without subscribers."""
    return replace(head, push_epoch=head.push_epoch + 1, push_events=None)


def check_room(config_ids: Collection[str], config: PushConfig) -> None:
    """Raise TooManyPushConfigs if the task, which has these configs, has no room for another."""
    if config.id not in config_ids and len(config_ids) >= MAX_PUSH_CONFIGS:
        raise TooManyPushConfigs(
            f"The task has {MAX_PUSH_CONFIGS} push notification configs already. Delete one first, or replace it."
        )
