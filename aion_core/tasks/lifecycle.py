"""Task states: the allowed transitions, and the task's head after an event. Pure."""

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
    return status.timestamp.ToDatetime(tzinfo=UTC)


def status_at(state: TaskState, at: datetime) -> TaskStatus:
    """Return a task status with this state and time, rounded down to a millisecond.

    Whole seconds get one millisecond more. The JSON of protobuf omits a zero fraction: clients that parse one fixed
    format, or sort timestamps as text, would fail.
    """
    status = TaskStatus(state=state)
    status.timestamp.FromDatetime(at.astimezone(UTC).replace(microsecond=max(at.microsecond // 1000, 1) * 1000))
    return status


def time_of(event: Event) -> datetime | None:
    """Return the time of a task or status event; None for an event without a timestamp."""
    if not isinstance(event, Task | TaskStatusUpdateEvent) or not event.status.HasField("timestamp"):
        return None
    return event.status.timestamp.ToDatetime(tzinfo=UTC)


def milliseconds(since: datetime, until: datetime) -> float:
    """Return the milliseconds between two times, at least 0, since the clocks of two machines may differ."""
    return max(0.0, (until - since).total_seconds() * 1000)
