"""Lists of tasks by owner, agent, context, state and time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aion_core.protocol.types import TaskState


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Filter of an owner's tasks with an agent; each further field excludes more."""

    owner: str
    agent: str
    context_id: str | None = None
    state: TaskState | None = None
    since: datetime | None = None
    """Only tasks with a status of this time or later."""


@dataclass(frozen=True, slots=True, order=True)
class ListCursor:
    """Position of a task in a list: the time of its status, then its id."""

    timestamp: datetime
    task_id: str


class TaskList(Protocol):
    """List of tasks by the time of their status, newest first; it may lag behind the log."""

    async def page(self, tasks: TaskFilter, *, after: ListCursor | None, limit: int) -> Sequence[ListCursor]:
        """Return the positions of up to `limit` tasks after `after`; that task itself may have moved since."""
        ...

    async def count(self, tasks: TaskFilter) -> int:
        """Return the number of tasks in the list."""
        ...

    async def secret(self) -> bytes:
        """Return the secret of this deployment's page tokens: random, created once."""
        ...
