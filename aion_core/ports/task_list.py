"""Task list port: lists of tasks by owner, agent, context, state and time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from aion_core.protocol.types import TaskState


class TaskFilter(Struct, frozen=True):
    """Filter of an owner's tasks with one agent. Each optional field restricts the tasks further; None does not."""

    owner: str
    agent: str
    context_id: str | None = None
    state: TaskState | None = None
    since: datetime | None = None
    """Only tasks with a status of this time or later."""


class ListCursor(Struct, frozen=True, order=True):
    """Position of a task in a list that is sorted by status time, then by task id."""

    timestamp: datetime
    task_id: str


class TaskList(Protocol):
    """List of tasks, newest status first. It may lag behind the event log."""

    async def page(self, tasks: TaskFilter, *, after: ListCursor | None, limit: int) -> Sequence[ListCursor]:
        """Return the positions of up to `limit` matching tasks after `after`; None means from the newest task on."""
        ...

    async def count(self, tasks: TaskFilter) -> int:
        """Return the number of tasks that match the filter."""
        ...

    async def secret(self) -> bytes:
        """Return the secret that signs this deployment's page tokens. It is generated once, at random."""
        ...
