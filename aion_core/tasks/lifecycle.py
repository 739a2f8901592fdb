"""Life cycle of a task: its states, its head (state, last event number, fencing token), effects of events. Pure."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from aion_core.errors import InvalidTransition, StoreCorrupt, TooManyPushConfigs
from aion_core.ports import MAX_PUSH_CONFIGS, ContextKey, Head, Numbered, PushConfig, PushEvents, TaskKey
from aion_core.ports.table import Absent, Both, Change, Condition, Either, Equals, Exists, Item, OneOf
from aion_core.protocol.types import (
    Artifact,
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

T = TypeVar("T", covariant=True)

TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
"""Final states of a task: no transition follows (A2A 4.1.3). `unknown` occurs only in v0.3 responses."""

INTERRUPTED = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
"""States of a task waiting for its client. A message resumes the task."""

RUNNING = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
"""States of a task with a running or waiting turn."""

TERMINAL_OR_INTERRUPTED = TERMINAL | INTERRUPTED
"""States without further events until a client acts. A blocking send returns and a stream ends (A2A 3.1.1, 3.1.2)."""

_FOLLOWS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.TASK_STATE_SUBMITTED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
    TaskState.TASK_STATE_WORKING: frozenset({TaskState.TASK_STATE_WORKING}) | INTERRUPTED | TERMINAL,
    TaskState.TASK_STATE_INPUT_REQUIRED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
    TaskState.TASK_STATE_AUTH_REQUIRED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def may_follow(before: TaskState, after: TaskState) -> bool:
    """Return True if a task in state `before` may enter state `after`."""
    return after in _FOLLOWS.get(before, frozenset())


def state_name(state: TaskState) -> str:
    """Return the state's short name: `input-required` for TASK_STATE_INPUT_REQUIRED."""
    return _STATE_NAMES[state]


_STATE_NAMES = {state: name.removeprefix("TASK_STATE_").lower().replace("_", "-") for name, state in TaskState.items()}


def advance(head: Head, event: Event) -> Head:
    """Return the task's head after the event: the event number grows by one, and a status event sets the state.

    Raises InvalidTransition if the task has ended, or if its state does not allow the event's state.
    """
    if head.state in TERMINAL:
        raise InvalidTransition(f"The task is {state_name(head.state)}: nothing follows.")
    if isinstance(event, TaskStatusUpdateEvent | Task):
        if head.generation and not may_follow(head.state, event.status.state):
            raise InvalidTransition(f"{state_name(event.status.state)} does not follow {state_name(head.state)}.")
        return replace(
            head, generation=head.generation + 1, state=event.status.state, timestamp=timestamp_of(event.status)
        )
    return replace(head, generation=head.generation + 1)


def timestamp_of(status: TaskStatus) -> datetime:
    """Return the timestamp of a task status as a datetime in UTC."""
    # Calculate the time here, because protobuf's ToDatetime returns the same result more slowly.
    return _EPOCH + timedelta(seconds=status.timestamp.seconds, microseconds=status.timestamp.nanos // 1000)


def status_at(state: TaskState, at: datetime) -> TaskStatus:
    """Return a task status with this state and time, rounded down to a millisecond.

    A time in whole seconds is increased by one millisecond. Protobuf's JSON omits a zero fraction, and some clients
    parse only one timestamp format, or sort timestamps as text.
    """
    status = TaskStatus(state=state)
    since_1970 = (at - _EPOCH) // timedelta(milliseconds=1)
    status.timestamp.FromMilliseconds(since_1970 + (since_1970 % 1000 == 0))
    return status


def time_of(event: Event) -> datetime | None:
    """Return the time of a task or status event; None for an event without a timestamp."""
    if not isinstance(event, Task | TaskStatusUpdateEvent) or not event.status.HasField("timestamp"):
        return None
    return timestamp_of(event.status)


def milliseconds(since: datetime, until: datetime) -> float:
    """Return the milliseconds between two times. Return 0 instead of a negative number: clocks of machines differ."""
    return max(0.0, (until - since).total_seconds() * 1000)


# ── The task of an event log ──────────────────────────────────────────────────────────────────────────────────────────


def fold(log: Iterable[Numbered]) -> Task:
    """Return the task resulting from a log's events. Raises StoreCorrupt if the log does not begin with a task."""
    task: Task | None = None
    # Look messages and artifacts up by id, because a search would make each event of a long log slower than the last.
    known: set[str]
    artifacts: dict[str, Artifact]
    for entry in log:
        if isinstance(entry.event, Task):
            task = Task()
            task.CopyFrom(entry.event)
            known = {message.message_id for message in task.history}
            artifacts = {artifact.artifact_id: artifact for artifact in reversed(task.artifacts)}
        elif task is None:
            raise StoreCorrupt("A log begins with its task.")
        else:
            _apply_to(task, entry, known, artifacts)
    if task is None:
        raise StoreCorrupt("A log is never empty.")
    return task


def _apply_to(task: Task, entry: Numbered, known: set[str], artifacts: dict[str, Artifact]) -> None:
    """Apply the event to the task. `known` has the ids of its history's messages, `artifacts` its artifacts by id."""
    event = entry.event
    match event:
        case Message():
            _add_message(task, event, known)
        case TaskStatusUpdateEvent():
            # Move the earlier message to `history`, because `status.message` is only the task's latest message.
            if task.status.HasField("message") and task.status.message.message_id != event.status.message.message_id:
                _add_message(task, task.status.message, known)
            if entry.message is not None:
                _add_message(task, entry.message, known)
            task.status.CopyFrom(event.status)
            if event.status.HasField("message"):
                # Remove the message from `history`: the last status may repeat a message of the turn as its answer.
                _remove_message(task, event.status.message.message_id, known)
            if event.HasField("metadata"):
                task.metadata.MergeFrom(event.metadata)
        case TaskArtifactUpdateEvent():
            _put(task, event, artifacts)


def _add_message(task: Task, message: Message, known: set[str]) -> None:
    if message.message_id not in known:
        known.add(message.message_id)
        task.history.append(message)


def _remove_message(task: Task, message_id: str, known: set[str]) -> None:
    if message_id in known:
        known.remove(message_id)
        del task.history[next(n for n, each in enumerate(task.history) if each.message_id == message_id)]


def _put(task: Task, event: TaskArtifactUpdateEvent, artifacts: dict[str, Artifact]) -> None:
    """Add an artifact to the task. With the same id, replace it, or extend it if `append` is set (A2A 4.2.2)."""
    artifact = artifacts.get(event.artifact.artifact_id)
    if artifact is None:
        task.artifacts.append(event.artifact)
        artifacts[event.artifact.artifact_id] = task.artifacts[-1]
    elif event.append:
        artifact.parts.extend(event.artifact.parts)
        if event.artifact.HasField("metadata"):
            artifact.metadata.MergeFrom(event.artifact.metadata)
    else:
        artifact.CopyFrom(event.artifact)


# ── The head of a task ────────────────────────────────────────────────────────────────────────────────────────────────


HEAD_ATTRIBUTES = ("agent", "context_id", "state", "timestamp", "generation", "fence", "push_epoch", "push_events")
"""The attributes of an item that hold its head."""


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


IS_RUNNING = state_in(RUNNING)
HAS_NOT_ENDED = state_in(RUNNING | INTERRUPTED)


def subscribers_as_read(head: Head) -> Condition:
    """Return the condition that no push config was added since the head was read: a commit notifies all of them."""
    return Either((Absent("push_epoch"), Equals("push_epoch", head.push_epoch)))


def as_read(head: Head, *, fence: bool) -> Condition:
    """Return the condition that the task's event number, subscribers and (if `fence`) fence equal those of `head`."""
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


def fenced(head: Head, fence: int) -> Change:
    """Return the change to set a new fence in a task's head. Writes under earlier leases then fail.

    The change fails if the event number has changed since `head` was read: the holder of an expired lease may have
    recorded one more event.
    """
    return Change({"fence": fence}, only_if=Both((Equals("generation", head.generation), HAS_NOT_ENDED)))


def subscriber_attributes(head: Head) -> dict[str, str | int]:
    """Return the push subscriber attributes of a task's head item; empty without subscribers."""
    if head.push_events is None:
        return {}
    return {"push_epoch": head.push_epoch, "push_events": head.push_events.value}


def subscribed(head: Head, after: Head, *, while_running: bool = False) -> Change:
    """Return the change to add a push subscriber to a task. With `while_running`, the task must be running."""
    exists = IS_RUNNING if while_running else Exists()
    return Change(subscriber_attributes(after), only_if=Both((exists, subscribers_as_read(head))))


def without_subscribers(head: Head) -> Change:
    """Return the change to remove a task's push subscribers. It fails if one was added since `head` was read."""
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
    """Identifies the write of the event. A repeated write after a lost response finds the event by it."""
    notifies: bool = False
    """True if a push subscriber may want the event."""


class HeadMove(Struct, frozen=True):
    """A change of a task's head item (current state), and the resulting head."""

    change: Change
    after: Head


class Transition(Struct, Generic[T], frozen=True):
    """Changes of a context, of task heads (current states) and of logs in one transaction, and the caller's outcome."""

    outcome: T
    context: Change | None = None
    heads: tuple[HeadMove, ...] = ()
    events: tuple[NewEvent, ...] = ()
    recorded_message: tuple[TaskKey, str] | None = None
    """Task and turn id of a message that was queued until now. The transaction records the message in the log."""


def new_event(head: Head, generation: int, event: Event, **more: Any) -> NewEvent:
    """Return a new event for a task's log. It notifies the push subscribers of `head`, if they receive this kind."""
    return NewEvent(head.key, generation, event, notifies=has_subscriber_for(head, event), **more)


# ── Subscribers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def wants(events: PushEvents, event: Event) -> bool:
    """Return True if a push subscriber to `events` receives this event."""
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
    """Raise TooManyPushConfigs if a task with these push configs has the maximum and `config` would be one more."""
    if config.id not in config_ids and len(config_ids) >= MAX_PUSH_CONFIGS:
        raise TooManyPushConfigs(
            f"The task has {MAX_PUSH_CONFIGS} push notification configs already. Delete or replace one first."
        )
