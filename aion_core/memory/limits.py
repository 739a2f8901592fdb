"""How much each owner asks for, in dicts, with the promises of `ports.RateLimits`."""

from collections.abc import Collection
from datetime import datetime, timedelta

from aion_core.ports import Clock, Limits, OpenStream, OpenTask


class MemoryRateLimits:
    """`ports.RateLimits` for one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full_at: dict[str, datetime] = {}
        self._open: dict[str, dict[str, OpenStream]] = {}
        self._tasks: dict[str, set[OpenTask]] = {}

    async def take(self, owner: str, *, per_minute: int) -> float:
        """See `ports.RateLimits.take`."""
        now, step = self._clock.now(), timedelta(minutes=1) / per_minute
        full_at = max(self._full_at.get(owner, now), now) + step
        over = (full_at - now - timedelta(minutes=1)).total_seconds()
        if over > 0:
            return over
        self._full_at[owner] = full_at
        return 0.0

    async def open_stream(self, owner: str, stream: OpenStream, limits: Limits) -> bool:
        """See `ports.RateLimits.open_stream`."""
        now = self._clock.now()
        living = {each.id: each for each in self._open.get(owner, {}).values() if each.until > now}
        if not limits.allow(stream, living.values()):
            return False
        self._open[owner] = {**living, stream.id: stream}
        return True

    async def close_stream(self, owner: str, stream_id: str) -> None:
        """See `ports.RateLimits.close_stream`."""
        streams = self._open.get(owner, {})
        streams.pop(stream_id, None)
        if not streams:
            self._open.pop(owner, None)

    async def count_task(self, owner: str, task: OpenTask, *, most: int) -> Collection[OpenTask]:
        """See `ports.RateLimits.count_task`."""
        counted = self._tasks.setdefault(owner, set())
        if len(counted) >= most:
            return frozenset(counted)
        counted.add(task)
        return ()

    async def forget_tasks(self, owner: str, tasks: Collection[OpenTask]) -> None:
        """See `ports.RateLimits.forget_tasks`."""
        left = self._tasks.get(owner, set()) - set(tasks)
        if left:
            self._tasks[owner] = left
        else:
            self._tasks.pop(owner, None)
