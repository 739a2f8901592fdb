"""Task list port: lists of tasks by owner, agent, context, state and time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from aion_core.protocol.types import TaskState


class TaskFilter(Struct, frozen=True):
    """Filter of an owner's tasks with one agent. Each further field excludes more tasks; None excludes no task."""

    owner: str
    agent: str
    context_id: str | None = None
    state: TaskState | None = None
    since: datetime | None = None
    """Only tasks with a status of this time or later."""


class ListCursor(Struct, frozen=True, order=True):
    """Position of a task in a list, ordered by the time of its status, then by its id."""

    timestamp: datetime
    task_id: str


class TaskList(Protocol):
    """List of tasks by the time of their status, newest first. It may lag behind the event log."""

    async def page(self, tasks: TaskFilter, *, after: ListCursor | None, limit: int) -> Sequence[ListCursor]:
        """Return the positions of up to `limit` matching tasks after `after`. None begins with the newest task."""
        ...

    async def count(self, tasks: TaskFilter) -> int:
        """Return the number of tasks that match the filter."""
        ...

    async def secret(self) -> bytes:
        """Return the secret that signs this deployment's page tokens. It is random and created once."""
        ...
