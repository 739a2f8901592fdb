"""Which state may follow which, and where an event leaves a task's head. Pure."""

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
"""Final: nothing follows (R45; `unknown` is a word of v0.3 output only, D15)."""

INTERRUPTED = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
"""Waiting for the client; a message to the task sets it to work again."""

RUNNING = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
"""A turn of the task runs or waits."""

TERMINAL_OR_INTERRUPTED = TERMINAL | INTERRUPTED
"""Nothing more is said until a client acts: a blocking send answers, a stream ends (spec 3.1.1, 3.1.2)."""

_FOLLOWS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.TASK_STATE_SUBMITTED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
    TaskState.TASK_STATE_WORKING: frozenset({TaskState.TASK_STATE_WORKING}) | INTERRUPTED | TERMINAL,
    TaskState.TASK_STATE_INPUT_REQUIRED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
    TaskState.TASK_STATE_AUTH_REQUIRED: frozenset({TaskState.TASK_STATE_WORKING}) | TERMINAL,
}


def may_follow(before: TaskState, after: TaskState) -> bool:
    """Tell whether a task in state `before` may enter `after`; a terminal state is followed by none."""
    return after in _FOLLOWS.get(before, frozenset())


def state_name(state: TaskState) -> str:
    """Return the state as people write it: `input-required` for TASK_STATE_INPUT_REQUIRED (R44)."""
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def advance(head: Head, event: Event) -> Head:
    """Return the head after the event: one generation on, in the state that the event says, else in the same.

    Raises InvalidTransition where that state may not follow.
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
    """Return the status with its timestamp, to the millisecond (R37).

    A whole second is put a millisecond on: the JSON of protobuf leaves its fraction out, and one timestamp in a thousand
    would be of another form than the others, which a client that parses one form, or sorts them as text, would trip over.
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
