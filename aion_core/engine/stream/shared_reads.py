"""Reads of a growing log, shared by the readers of one process."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.engine.records import Cursor, DeltaBatch, Log
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.table.keys import TaskKey

FRESH_SECONDS = 0.08
"""Longest age of a shared read in seconds: a little less than the shortest pause between reads."""

_Position = tuple[TaskKey, int, Cursor]


class Read(Struct, frozen=True):
    """One read of a task's events and chunk batches. `log` is None if the task does not exist."""

    log: Log | None
    deltas: Sequence[DeltaBatch] = ()


@dataclass(slots=True)
class SharedRead:
    """A read, its start time in seconds, and the number of readers waiting for it."""

    at: float
    read: asyncio.Task[Read]
    readers: int = 0

    def serves(self, now: float) -> bool:
        """Return True if a reader may use this read at the time `now`: it is recent and has not failed."""
        failed = self.read.done() and (self.read.cancelled() or self.read.exception() is not None)
        return 0 <= now - self.at <= FRESH_SECONDS and not failed


class SharedReads:
    """Shared reads of one process: readers at the same position share one read of the store."""

    def __init__(self, store: StoredTasks, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._reads: dict[_Position, SharedRead] = {}

    async def after(self, key: TaskKey, generation: int, since: Cursor) -> Read:
        """Return the task's events after `generation` and its chunk batches from `since`, at most FRESH_SECONDS old.

        The events are read first, because a reader needs an event before the chunks that follow it. A read is cancelled
        if no reader waits for it any more. A read of the whole log is not shared: a repeated answer waits for its turn,
        but an earlier read may still show the question as the end.
        """
        position, now = (key, generation, since), self._clock.now().timestamp()
        shared = self._reads.get(position)
        if shared is None or not generation or not shared.serves(now):
            self._forget(now)
            shared = SharedRead(now, asyncio.ensure_future(self._read(key, generation, since)))
            self._reads[position] = shared
        shared.readers += 1
        try:
            # Shield the read from the cancellation of one reader, because the other readers still need it.
            return await asyncio.shield(shared.read)
        finally:
            shared.readers -= 1
            if not shared.readers and not shared.read.done():
                shared.read.cancel()
                if self._reads.get(position) is shared:
                    del self._reads[position]

    async def _read(self, key: TaskKey, generation: int, since: Cursor) -> Read:
        log = await self._store.log(key, after=generation)
        return Read(log, await self._store.deltas(key, since=since)) if log is not None else Read(None)

    def _forget(self, now: float) -> None:
        self._reads = {
            position: shared for position, shared in self._reads.items() if not shared.read.done() or shared.serves(now)
        }
