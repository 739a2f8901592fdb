"""How much one owner may ask for, and what counts it: requests by the minute, and streams and tasks that are open."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aion_core.ports.tasks import TaskKey


@dataclass(frozen=True, slots=True)
class Limits:
    """What a deployment allows each of its callers; None where it sets no limit."""

    requests_per_minute: int | None = None
    streams_per_owner: int | None = None
    streams_per_task: int | None = None
    open_tasks_per_owner: int | None = None

    @property
    def of_streams(self) -> bool:
        """Whether streams have to be counted."""
        return self.streams_per_owner is not None or self.streams_per_task is not None

    def allow(self, stream: "OpenStream", others: Collection["OpenStream"]) -> bool:
        """Tell whether the stream may be opened beside the owner's others."""
        if self.streams_per_owner is not None and len(others) >= self.streams_per_owner:
            return False
        if self.streams_per_task is None or not stream.task_id:
            return True
        return sum(other.task_id == stream.task_id for other in others) < self.streams_per_task


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A stream that holds an execution environment."""

    id: str
    task_id: str
    """The task that it is about; "" of one that is yet to be made."""
    until: datetime
    """When it counts no more, should nobody have said that it ended."""


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task that had not ended when it was counted."""

    key: TaskKey
    since: datetime
    """When it was counted, to the millisecond."""


class RateLimits(Protocol):
    """What counts, for all instances of a deployment together. Every method may raise StoreError."""

    async def take(self, owner: str, *, per_minute: int) -> float:
        """Take one of the owner's requests; return 0, or in how many seconds there is one again, and take none.

        A token bucket: it holds as many as a minute has, and fills evenly.
        """
        ...

    async def open_stream(self, owner: str, stream: OpenStream, limits: Limits) -> bool:
        """Count the stream among the owner's; return False, and count nothing, where one of the limits is reached."""
        ...

    async def close_stream(self, owner: str, stream_id: str) -> None:
        """Count the stream no more; nothing happens where it is not counted."""
        ...

    async def count_task(self, owner: str, task: OpenTask, *, most: int) -> Collection[OpenTask]:
        """Count the task among the owner's and return (); where so many are counted, count none, and return those.

        Nobody says when a task has ended: whoever finds as many as may be looks which of them have.
        """
        ...

    async def forget_tasks(self, owner: str, tasks: Collection[OpenTask]) -> None:
        """Count these tasks no more; nothing happens where they are not counted."""
        ...
