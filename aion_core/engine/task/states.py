"""States of a task, and the states that may follow each (A2A 4.1.3). Pure."""

from aion_core.protocol.types import TaskState
from aion_core.table.conditions import Condition, OneOf

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


def may_follow(before: TaskState, after: TaskState) -> bool:
    """Return True if a task in state `before` may enter state `after`."""
    return after in _FOLLOWS.get(before, frozenset())


def state_name(state: TaskState) -> str:
    """Return the state's short name for error texts and log records: `input-required` for TASK_STATE_INPUT_REQUIRED.

    A task's status never contains it. The state names of v0.3 look the same, but the SDK makes them (aion_core/web/v03).
    """
    return _STATE_NAMES[state]


_STATE_NAMES = {state: name.removeprefix("TASK_STATE_").lower().replace("_", "-") for name, state in TaskState.items()}


def state_in(states: frozenset[TaskState]) -> Condition:
    """Return the condition that the task is in one of these states."""
    return OneOf("state", tuple(sorted(TaskState.Name(state) for state in states)))


IS_RUNNING = state_in(RUNNING)
HAS_NOT_ENDED = state_in(RUNNING | INTERRUPTED)
