"""Task states: their transitions, and the head after an event. Pure."""

from dataclasses import replace
from datetime import UTC, datetime

from aion_core.errors import InvalidTransition
from aion_core.ports import Head
from aion_core.protocol.types import Event, Task, TaskState, TaskStatus, TaskStatusUpdateEvent

TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
"""Final states: no transition leaves them (A2A 4.1.3). `unknown` occurs in v0.3 responses only."""

INTERRUPTED = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
"""States of a task that waits for its client; a message resumes it."""

RUNNING = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
"""A turn of the task runs or waits."""

TERMINAL_OR_INTERRUPTED = TERMINAL | INTERRUPTED
"""States without further events until a client acts: a blocking send returns, a stream ends (A2A 3.1.1, 3.1.2)."""

_FOLLOWS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.TASK_STATE_SUBMITTED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
    TaskState.TASK_STATE_WORKING: frozenset({TaskState.TASK_STATE_WORKING}) | INTERRUPTED | TERMINAL,
    TaskState.TASK_STATE_INPUT_REQUIRED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
    TaskState.TASK_STATE_AUTH_REQUIRED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
}


def may_follow(before: TaskState, after: TaskState) -> bool:
    """Return True if a task in state `before` may enter state `after`."""
    return after in _FOLLOWS.get(before, frozenset())


def state_name(state: TaskState) -> str:
    """Return the state's short name: `input-required` for TASK_STATE_INPUT_REQUIRED."""
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def advance(head: Head, event: Event) -> Head:
    """Return the head after the event: its generation grows by one, and its state is the event's if that has one.

    Raises InvalidTransition.
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
    """Return the status's timestamp in UTC."""
    return status.timestamp.ToDatetime(tzinfo=UTC)


def status_at(state: TaskState, at: datetime) -> TaskStatus:
    """Return the status with its timestamp, to the millisecond.

    Whole seconds get one millisecond more: the JSON of protobuf omits a zero fraction, and clients that parse one format,
    or sort timestamps as text, would fail on it.
    """
    status = TaskStatus(state=state)
    status.timestamp.FromDatetime(at.astimezone(UTC).replace(microsecond=max(at.microsecond // 1000, 1) * 1000))
    return status


def time_of(event: Event) -> datetime | None:
    """Return the time of the event; None if it has no timestamp."""
    if not isinstance(event, Task | TaskStatusUpdateEvent) or not event.status.HasField("timestamp"):
        return None
    return event.status.timestamp.ToDatetime(tzinfo=UTC)


def milliseconds(since: datetime, until: datetime) -> float:
    """Return the time between the two, at least 0: the clocks of two machines may differ."""
    return max(0.0, (until - since).total_seconds() * 1000)
