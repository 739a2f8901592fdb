"""Event log of a task, read from its items in the table."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from aion_core.engine.records import Cursor, DeltaBatch, Head, Log, Numbered
from aion_core.engine.task.delta_rows import delta_batch_of
from aion_core.engine.task.head import head_of
from aion_core.engine.task.rows import LogRows
from aion_core.engine.task.transition import MOST_TOGETHER, QueuedMessage
from aion_core.errors import StoreCorrupt
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import LAST, SORT, Item
from aion_core.table.keys import TaskKey
from aion_core.table.reads import Reads
from aion_core.table.retries import FIRST_WAIT_SECONDS, MAX_ATTEMPTS

logger = logging.getLogger(__name__)

FIRST_PAGE, LARGEST_PAGE = 120, 1000
"""Page sizes of a query of events, newest first. The first page usually contains a snapshot."""


class TaskLog:
    """Reader of the event logs of all tasks in one table."""

    def __init__(self, reads: Reads, blobs: Blobs) -> None:
        self._reads, self.rows = reads, LogRows(blobs)

    async def head(self, key: TaskKey) -> Head | None:
        """Return the task's head (state and event number); None if the task does not exist. The read is consistent."""
        item = await self._reads.get(keys.head_key(key))
        return head_of(key, item) if item is not None else None

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the task's head and its events after number `after`; None if the task does not exist.

        The read is consistent: the events reach the head's event number without a gap. The first entry may be a
        snapshot, a Task with the number of its last event: at the start of the log, or in place of expired events.
        Return None also for a log with a gap and no snapshot.
        """
        if after:
            log = await self._log_after(key, after)
            if log is not None:
                return log
        return await self._log_from_snapshot(key)

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the task's log as `log` does, but with events instead of a snapshot if all events are stored."""
        return await self._log_after(key, after) or await self._log_from_snapshot(key)

    async def _log_after(self, key: TaskKey, after: int) -> Log | None:
        """Return the task's events after this number, or None if one of them is missing."""
        found = await self._reads.query(keys.task_partition(key), keys.event_sort(after + 1), keys.HEAD)
        if not found or found[-1][SORT] != keys.HEAD:
            return None
        rows = {item[SORT]: item for item in found[:-1]}
        return await self._log_of(key, head_of(key, found[-1]), after, rows)

    async def _log_from_snapshot(self, key: TaskKey) -> Log | None:
        """Return the log from the newest snapshot on, or from the first event. Read the newest items first."""
        rows: dict[str, Item] = {}
        pages = self._reads.pages(
            keys.task_partition(key),
            keys.event_sort(1),
            keys.HEAD,
            limit=FIRST_PAGE,
            largest=LARGEST_PAGE,
            newest_first=True,
        )
        head: Head | None = None
        async with aclosing(pages):
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    sort = item[SORT]
                    if head is None:
                        if sort != keys.HEAD:
                            return None
                        head = head_of(key, item)
                        continue
                    rows[sort] = item
                    generation = keys.snapshot_of(sort)
                    if generation is not None and generation <= head.generation:
                        return await self._log_of(key, head, generation, rows)
        return await self._log_of(key, head, 0, rows) if head is not None else None

    async def _log_of(self, key: TaskKey, head: Head, base: int, rows: Mapping[str, Item]) -> Log | None:
        """Build the log from a task's items, from the snapshot at `base` on. Return None if an event is missing."""
        entries: list[Numbered] = []
        if base and keys.snapshot_sort(base) in rows:
            entries.append(Numbered(base, await self.rows.snapshot(rows[keys.snapshot_sort(base)])))
        for generation in range(base + 1, head.generation + 1):
            item = rows.get(keys.event_sort(generation)) or await self._row(key, generation, head)
            if item is None:
                return None
            entries.append(await self.rows.event(generation, item))
        return Log(head, tuple(entries))

    async def _row(self, key: TaskKey, generation: int, head: Head) -> Item | None:
        """Return the item of an event, or None if it is missing.

        A query may return the task's new head without the new events of the same transaction. So the read of these
        events is retried for 2.5 s, which is longer than a transaction of MOST_TOGETHER events. A read doesn't conflict
        with the transaction, so the waits aren't random.
        """
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                await asyncio.sleep(FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
            item = await self._reads.get(keys.event_key(key, generation))
            if item is not None or generation <= head.generation - MOST_TOGETHER:
                return item
        return None

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """Return the task's chunk batches from the cursor on, sorted by generation, fence and first number."""
        rows = await self._reads.query(
            keys.delta_partition(key), keys.delta_sort(since.generation, since.fence, since.n), LAST
        )
        return [delta_batch_of(row) for row in rows]

    async def holds(self, key: TaskKey, generation: int, token: str) -> bool:
        """Return True if the event is stored with this token: an earlier write has succeeded without a response."""
        item = await self._reads.get(keys.event_key(key, generation))
        return item is not None and item.get("token") == token

    async def queued(self, task: TaskKey, turn_id: str) -> QueuedMessage:
        """Return the message queued for the turn, or an empty QueuedMessage if it is missing or unreadable."""
        item = await self._reads.get(keys.queued_message_key(task, turn_id))
        try:
            if item is not None and (queued := await self.rows.queued_message(item)).message is not None:
                return queued
        except StoreCorrupt:
            logger.exception("A queued message cannot be read.", extra={"task_id": task.task_id})
        # Do not raise an error, because the turn must begin and fail: other turns are queued behind it.
        logger.error("A queued message is missing.", extra={"task_id": task.task_id})
        return QueuedMessage()
