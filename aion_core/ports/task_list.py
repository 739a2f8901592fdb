"""Lists of tasks by owner, agent, context, state and time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aion_core.protocol.types import TaskState


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """A filter of tasks: those of an owner and agent; each further field leaves out more."""

    owner: str
    agent: str
    context_id: str | None = None
    state: TaskState | None = None
    since: datetime | None = None
    """Only tasks whose status has changed at this time or later."""


@dataclass(frozen=True, slots=True, order=True)
class ListCursor:
    """The place of a task in a list: by the time of its status, then by its id."""

    timestamp: datetime
    task_id: str


class TaskList(Protocol):
    """The tasks by the time of their status, newest first; it may lag behind the log."""

    async def page(self, tasks: TaskFilter, *, after: ListCursor | None, limit: int) -> Sequence[ListCursor]:
        """Return the places of the tasks after `after` in the list, at most `limit`.

        The task at `after` may have moved since.
        """
        ...

    async def count(self, tasks: TaskFilter) -> int:
        """Return the number of tasks in the list."""
        ...

    async def secret(self) -> bytes:
        """Return the secret that signs this deployment's page tokens: random, made once."""
        ...
