"""Limits per owner: requests per minute, open streams and open tasks."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aion_core.ports.tasks import TaskKey


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a deployment for each of its callers; None is no limit."""

    requests_per_minute: int | None = None
    streams_per_owner: int | None = None
    streams_per_task: int | None = None
    open_tasks_per_owner: int | None = None

    @property
    def of_streams(self) -> bool:
        """True if streams have a limit."""
        return self.streams_per_owner is not None or self.streams_per_task is not None

    def allow(self, stream: "OpenStream", others: Collection["OpenStream"]) -> bool:
        """Return True if the owner may open the stream beside the others."""
        if self.streams_per_owner is not None and len(others) >= self.streams_per_owner:
            return False
        if self.streams_per_task is None or not stream.task_id:
            return True
        return sum(other.task_id == stream.task_id for other in others) < self.streams_per_task


@dataclass(frozen=True, slots=True)
class OpenStream:
    """An open stream, which occupies an execution environment."""

    id: str
    task_id: str
    """The task of the stream; "" if the stream creates it."""
    until: datetime
    """End of its count if its process dies."""


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A counted task."""

    key: TaskKey
    since: datetime
    """The time of counting, to the millisecond."""


class RateLimits(Protocol):
    """Counts of all instances of a deployment together. Every method may raise StoreError."""

    async def take(self, owner: str, *, per_minute: int) -> float:
        """Take a token from the owner's bucket and return 0; if it is empty, return the seconds until the next token.

        The bucket holds the tokens of a minute and fills evenly.
        """
        ...

    async def open_stream(self, owner: str, stream: OpenStream, limits: Limits) -> bool:
        """Count the stream and return True; at a limit return False. A repeat counts once."""
        ...

    async def close_stream(self, owner: str, stream_id: str) -> None:
        """Uncount the stream, if it is counted."""
        ...

    async def count_task(self, owner: str, task: OpenTask, *, most: int) -> Collection[OpenTask]:
        """Count the task and return (); at the limit of `most` return the counted tasks instead.

        The end of a task does not lower the count: at the limit the caller looks for ended tasks.
        """
        ...

    async def forget_tasks(self, owner: str, tasks: Collection[OpenTask]) -> None:
        """Uncount these tasks, if they are counted."""
        ...
