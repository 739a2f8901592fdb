"""Life cycle of a task: the allowed states, and the effect of an event on its head and on the task. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from aion_core.errors import InvalidTransition, StoreCorrupt
from aion_core.ports import Head, Numbered
from aion_core.protocol.types import (
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
"""Final states of a task, without further transitions (A2A 4.1.3). `unknown` occurs in v0.3 responses only."""

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
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def advance(head: Head, event: Event) -> Head:
    """Return the task's head after the event: the event number grows by one, and a status event sets the state.

    Raises InvalidTransition if the task has ended, or if the event's state must not follow the current state.
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
    # As protobuf's ToDatetime, without its calls.
    return _EPOCH + timedelta(seconds=status.timestamp.seconds, microseconds=status.timestamp.nanos // 1000)


def status_at(state: TaskState, at: datetime) -> TaskStatus:
    """Return a task status with this state and time, rounded down to a millisecond.

    Whole seconds get one millisecond more. The JSON of protobuf omits a zero fraction: clients that parse one fixed
    format, or sort timestamps as text, would fail.
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
    """Return the milliseconds between two times, at least 0, since the clocks of two machines may differ."""
    return max(0.0, (until - since).total_seconds() * 1000)


# ── The task of an event log ──────────────────────────────────────────────────────────────────────────────────────────


def apply(task: Task | None, entry: Numbered) -> Task:
    """Return a copy of the task with the effect of one log entry."""
    if isinstance(entry.event, Task):
        return _copy(entry.event)
    if task is None:
        raise StoreCorrupt("A log begins with its task.")
    after = _copy(task)
    _apply_to(after, entry)
    return after


def fold(log: Iterable[Numbered]) -> Task:
    """Return the task that a log's events lead to. Raises StoreCorrupt if the log does not begin with a task."""
    task: Task | None = None
    for entry in log:
        if task is None or isinstance(entry.event, Task):
            task = apply(task, entry)
        else:
            _apply_to(task, entry)
    if task is None:
        raise StoreCorrupt("A log is never empty.")
    return task


def _apply_to(task: Task, entry: Numbered) -> None:
    event = entry.event
    match event:
        case Message():
            _add_message(task, event)
        case TaskStatusUpdateEvent():
            # `status.message` is the latest message of the task; `history` has the earlier ones, each once.
            if task.status.HasField("message") and task.status.message.message_id != event.status.message.message_id:
                _add_message(task, task.status.message)
            if entry.message is not None:
                _add_message(task, entry.message)
            task.status.CopyFrom(event.status)
            if event.status.HasField("message"):
                # An answer may be an earlier message of the turn, repeated in the turn's last status.
                _remove_message(task, event.status.message.message_id)
            if event.HasField("metadata"):
                task.metadata.MergeFrom(event.metadata)
        case TaskArtifactUpdateEvent():
            _put(task, event)


def _add_message(task: Task, message: Message) -> None:
    if all(each.message_id != message.message_id for each in task.history):
        task.history.append(message)


def _remove_message(task: Task, message_id: str) -> None:
    place = next((n for n, each in enumerate(task.history) if each.message_id == message_id), None)
    if place is not None:
        del task.history[place]


def _put(task: Task, event: TaskArtifactUpdateEvent) -> None:
    """Add an artifact to the task: replace the artifact with its id, or with `append` extend it (A2A 4.2.2)."""
    for artifact in task.artifacts:
        if artifact.artifact_id == event.artifact.artifact_id:
            if event.append:
                artifact.parts.extend(event.artifact.parts)
                if event.artifact.HasField("metadata"):
                    artifact.metadata.MergeFrom(event.artifact.metadata)
            else:
                artifact.CopyFrom(event.artifact)
            return
    task.artifacts.append(event.artifact)


def _copy(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy
