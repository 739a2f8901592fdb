"""Rate limits of owners, with one item each for an owner's requests, open streams and open tasks."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from aion_core.errors import StoreUnavailable
from aion_core.ports import Clock, Limits, OpenStream, OpenTask
from aion_core.ports.table import Change, Item, Key, Table, Update, WriteRefused
from aion_core.stores import keys
from aion_core.stores.retries import MAX_ATTEMPTS, jitter
from aion_core.tasks import limits as rules


class TableRateLimits:
    """`ports.RateLimits` in one table."""

    def __init__(self, table: Table, clock: Clock, *, retention: timedelta = timedelta(days=30)) -> None:
        """Count a task as open for at most `retention`, the life of tasks."""
        self._table, self._clock, self._retention = table, clock, retention

    async def take(self, owner: str, *, per_minute: int) -> float:
        """See `ports.RateLimits.take`. It makes one or two writes, and one read if the token bucket is empty."""
        key = keys.requests_key(owner)
        for _ in range(MAX_ATTEMPTS):
            now = self._clock.now()
            for change in rules.takes(now, per_minute):
                if await self._is_written(key, change):
                    return 0.0
            wait = rules.seconds_until_token(await self._table.get(key), now, per_minute)
            if wait > 0:
                return wait
            # A token is available again: another request changed the bucket, or time has passed.
        raise StoreUnavailable("Too many requests of one owner arrive at once.")

    async def open_stream(self, owner: str, stream: OpenStream, limits: Limits) -> bool:
        """See `ports.RateLimits.open_stream`."""
        return await self._change_streams(owner, lambda item, now: rules.opened(item, stream, limits, now))

    async def close_stream(self, owner: str, stream_id: str) -> None:
        """See `ports.RateLimits.close_stream`."""
        await self._change_streams(owner, lambda item, now: rules.closed(item, stream_id, now))

    async def count_task(self, owner: str, task: OpenTask, *, most: int) -> Collection[OpenTask]:
        """See `ports.RateLimits.count_task`. It makes one write, and one read at the limit."""
        key = keys.tasks_key(owner)
        expires = int((self._clock.now() + self._retention).timestamp())
        change = rules.counted(owner, task, most=most, expires=expires)
        for _ in range(MAX_ATTEMPTS):
            if await self._is_written(key, change):
                return ()
            found = rules.open_tasks(owner, await self._table.get(key))
            if task in found:
                return ()  # An earlier attempt succeeded, and its answer was lost.
            if len(found) >= most:
                return found
            # Other tasks were removed meanwhile, so there is room now.
        raise StoreUnavailable("Too many tasks of one owner begin at once.")

    async def forget_tasks(self, owner: str, tasks: Collection[OpenTask]) -> None:
        """See `ports.RateLimits.forget_tasks`."""
        if tasks:
            await self._is_written(keys.tasks_key(owner), rules.forgotten(owner, tasks))

    async def _change_streams(self, owner: str, plan: Callable[[Item | None, datetime], Change | None]) -> bool:
        """Read the owner's open streams and write the change planned for them. Return False if `plan` returns None."""
        key = keys.streams_key(owner)
        for attempt in range(MAX_ATTEMPTS):
            change = plan(await self._table.get(key), self._clock.now())
            if change is None:
                return False
            if await self._is_written(key, change):
                return True
            await jitter(attempt)
        raise StoreUnavailable("Too many streams of one owner open at once.")

    async def _is_written(self, key: Key, change: Change) -> bool:
        try:
            await self._table.write(Update(key, change))
        except WriteRefused:
            return False
        return True
