"""Reads a growing log for many: readers that stand at one place share a read, so that a hundred cost about as one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aion_core.ports import Clock, Cursor, DeltaBatch, Log, TaskKey, TaskStore

FRESH_SECONDS = 0.08
"""How old a read may be that another reader takes for its own: a little less than the shortest pause of a reader."""

_Place = tuple[TaskKey, int, Cursor]


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader finds after its place; None where there is no such task."""

    log: Log | None
    deltas: Sequence[DeltaBatch] = ()


class SharedReads:
    """The reads of one process."""

    def __init__(self, store: TaskStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._under_way: dict[_Place, tuple[float, asyncio.Task[Read]]] = {}

    async def after(self, key: TaskKey, generation: int, since: Cursor) -> Read:
        """Return the events after `generation`, and the deltas from `since` on, as of now or a moment ago.

        The events are read first: whoever hears a chunk has heard what it follows.
        """
        place, now = (key, generation, since), self._clock.now().timestamp()
        at, read = self._under_way.get(place, (0.0, None))
        if (
            read is None
            or not 0 <= now - at <= FRESH_SECONDS
            or (read.done() and (read.cancelled() or read.exception()))
        ):
            self._forget(now)
            read = asyncio.ensure_future(self._read(key, generation, since))
            self._under_way[place] = (now, read)
        # Shielded: a reader that leaves takes nobody else's read along.
        return await asyncio.shield(read)

    async def _read(self, key: TaskKey, generation: int, since: Cursor) -> Read:
        log = await self._store.log(key, after=generation)
        return Read(log, await self._store.deltas(key, since=since)) if log is not None else Read(None)

    def _forget(self, now: float) -> None:
        self._under_way = {
            place: (at, read)
            for place, (at, read) in self._under_way.items()
            if not read.done() or 0 <= now - at <= FRESH_SECONDS
        }
