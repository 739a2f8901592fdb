"""Rate limits of callers. Each caller has one item each for requests, open streams and open tasks."""

from collections.abc import Collection
from datetime import timedelta

from aion_core.clock import Clock
from aion_core.engine.limits import open_tasks, requests, streams
from aion_core.engine.limits.limits import Limits, OpenStream, OpenTask
from aion_core.errors import StoreUnavailable
from aion_core.table import keys
from aion_core.table.item import Key
from aion_core.table.port import Table
from aion_core.table.refusals import WriteRefused
from aion_core.table.retries import MAX_ATTEMPTS
from aion_core.table.writes import Change, Update

MAX_STREAMS = 1000
"""Limit of a caller's counted streams if `streams_per_owner` is None, since an item's size is limited."""


class RateLimits:
    """Counters of each caller's requests, streams and tasks, shared by all processes of a deployment.

    Every method may raise StoreError.
    """

    def __init__(self, table: Table, clock: Clock, *, retention: timedelta = timedelta(days=30)) -> None:
        """Stop counting a task as open after `retention`, since tasks expire then."""
        self._table, self._clock, self._retention = table, clock, retention

    async def take(self, caller: str, *, per_minute: int) -> float:
        """Take a request token from the caller's bucket and return 0, or return the seconds until it has a token.

        The bucket holds `per_minute` tokens and fills evenly.

        Makes one or two writes, and one read if the token bucket is empty.
        """
        return await self._take(keys.requests_key(caller), caller, per_minute)

    async def take_for_callback(self, owner: str, token_hash: str, *, per_minute: int) -> float:
        """Take a token from the bucket of one callback for the owner's tasks, as `take` does from a caller's bucket."""
        return await self._take(keys.callbacks_limit_key(owner, token_hash), owner, per_minute)

    async def _take(self, key: Key, caller: str, per_minute: int) -> float:
        for _ in range(MAX_ATTEMPTS):
            now = self._clock.now()
            for change in requests.takes(caller, now, per_minute):
                if await self._is_written(key, change):
                    return 0.0
            wait = requests.seconds_until_token(await self._table.get(key), now, per_minute)
            if wait > 0:
                return wait
            # Try again: the bucket has a token now, although the write was refused, because time has passed or another
            # request has changed the bucket.
        raise StoreUnavailable("Too many requests of one caller arrive at once.")

    async def open_stream(self, caller: str, stream: OpenStream, limits: Limits) -> bool:
        """Count an open stream and return True; return False at a limit. A repeated call counts the stream once.

        Makes one write, and one read at a limit or for `streams_per_task`.
        """
        key, most = keys.streams_key(caller), limits.streams_per_owner or MAX_STREAMS
        for _ in range(MAX_ATTEMPTS):
            now = self._clock.now()
            if await self._is_written(key, streams.opened(caller, stream, most=most, now=now)):
                return limits.streams_per_task is None or await self._is_in_limit(
                    caller, stream, limits.streams_per_task
                )
            counted = streams.open_streams(await self._table.get(key))
            if any(each.id == stream.id for each in counted):
                return True  # An earlier attempt of this call succeeded, but its response was lost.
            if ended := [each for each in counted if each.until <= now]:
                await self._is_written(key, streams.closed(ended))
            elif len(counted) >= most:
                return False
            # Try again, because another process has closed streams since the write, so there is room now.
        raise StoreUnavailable("Too many streams of one caller open at once.")

    async def close_stream(self, caller: str, stream: OpenStream) -> None:
        """Remove a closed stream from the count, if it is counted.

        Makes one write.
        """
        await self._is_written(keys.streams_key(caller), streams.closed([stream]))

    async def _is_in_limit(self, caller: str, stream: OpenStream, most: int) -> bool:
        """Return True if its task has at most `most` open streams. Otherwise remove this stream from the count."""
        counted, now = streams.open_streams(await self._table.get(keys.streams_key(caller))), self._clock.now()
        of_task = [each for each in counted if each.task_id == stream.task_id and each.until > now]
        # Accept a stream that creates its task, because the stream has no task id yet.
        if not stream.task_id or len(of_task) <= most:
            return True
        await self.close_stream(caller, stream)
        return False

    async def count_task(self, caller: str, task: OpenTask, *, most: int) -> Collection[OpenTask]:
        """Count an open task and return (). If `most` tasks are counted already, return these tasks instead.

        The end of a task does not lower the count. At the limit, the caller has to pass the ended tasks to
        `forget_tasks`.

        Makes one write, and one read at the limit.
        """
        key = keys.tasks_key(caller)
        expires = int((self._clock.now() + self._retention).timestamp())
        change = open_tasks.counted(caller, task, most=most, expires=expires)
        for _ in range(MAX_ATTEMPTS):
            if await self._is_written(key, change):
                return ()
            found = open_tasks.open_tasks(caller, await self._table.get(key))
            if task in found:
                return ()  # An earlier attempt of this call succeeded, but its response was lost.
            if len(found) >= most:
                return found
            # Try again: the write was refused because the count was full, but another process has now removed tasks from it.
        raise StoreUnavailable("Too many tasks of one caller begin at once.")

    async def forget_tasks(self, caller: str, tasks: Collection[OpenTask]) -> None:
        """Remove these tasks of the caller from the count, if they are counted."""
        if tasks:
            await self._is_written(keys.tasks_key(caller), open_tasks.forgotten(caller, tasks))

    async def _is_written(self, key: Key, change: Change) -> bool:
        try:
            await self._table.write(Update(key, change))
        except WriteRefused:
            return False
        return True
