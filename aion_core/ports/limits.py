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
        """True if streams have to be counted."""
        return self.streams_per_owner is not None or self.streams_per_task is not None

    def allow(self, stream: "OpenStream", others: Collection["OpenStream"]) -> bool:
        """True if the stream may be opened beside the owner's others."""
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
    """The time from which it counts no more, in case its process dies."""


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task that had not ended when it was counted."""

    key: TaskKey
    since: datetime
    """The time of counting, to the millisecond."""


class RateLimits(Protocol):
    """Counts of all instances of a deployment together. Every method may raise StoreError."""

    async def take(self, owner: str, *, per_minute: int) -> float:
        """Take a token from the owner's bucket; return 0, or, without taking one, the seconds until there is a token.

        The bucket holds the tokens of a minute, and fills evenly.
        """
        ...

    async def open_stream(self, owner: str, stream: OpenStream, limits: Limits) -> bool:
        """Count the stream; return False, and count nothing, if one of the limits is reached. A repeat counts once."""
        ...

    async def close_stream(self, owner: str, stream_id: str) -> None:
        """Count the stream no more, if it is counted."""
        ...

    async def count_task(self, owner: str, task: OpenTask, *, most: int) -> Collection[OpenTask]:
        """Count the task and return (); if `most` tasks are counted already, return these instead.

        The end of a task is not counted: the caller that finds no room looks which tasks have ended.
        """
        ...

    async def forget_tasks(self, owner: str, tasks: Collection[OpenTask]) -> None:
        """Count these tasks no more, if they are counted."""
        ...
