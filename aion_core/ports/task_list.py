"""Where tasks are found by what is known of them: whose they are, how they stand, since when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aion_core.protocol.types import TaskState


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks are listed: those of an owner and agent, and, where more is said, of those only these."""

    owner: str
    agent: str
    context_id: str | None = None
    state: TaskState | None = None
    since: datetime | None = None
    """Those whose status has changed at this time or later."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a task stands in a list: by the time of its status, then by its id."""

    timestamp: datetime
    task_id: str


class TaskList(Protocol):
    """The tasks by the time of their status, newest first. It may lag behind the log by a moment."""

    async def page(self, tasks: TaskFilter, *, after: Place | None, limit: int) -> Sequence[Place]:
        """Return the places of the tasks that follow `after` in the list, at most so many.

        It does not matter whether a task stands at `after` any more.
        """
        ...

    async def count(self, tasks: TaskFilter) -> int:
        """Return how many tasks there are in the list."""
        ...

    async def secret(self) -> bytes:
        """Return the secret of this deployment by which its page tokens are signed: made once, at random."""
        ...
