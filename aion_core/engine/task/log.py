"""Event log of a task: its items in the table, and blobs for payloads that are too large for an item."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from aion_core.engine.records import Cursor, DeltaBatch, Head, Log, Numbered
from aion_core.engine.task.head import head_of
from aion_core.engine.task.rows import (
    chunks_text,
    cursor_of,
    delta_batch_of,
    event_bytes,
    event_of,
    parsed,
    request_of,
    speakers,
)
from aion_core.engine.task.transition import NewEvent, QueuedMessage
from aion_core.errors import StoreCorrupt
from aion_core.protocol.types import Message, Task
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import LAST, SORT, Item
from aion_core.table.keys import TaskKey
from aion_core.table.payloads import LARGE_BYTES
from aion_core.table.reads import Reads
from aion_core.table.retries import MAX_ATTEMPTS, jitter
from aion_core.table.schema import TASKS, VERSION
from aion_core.table.times import Times
from aion_core.table.writes import Put

logger = logging.getLogger(__name__)

FIRST_PAGE, LARGEST_PAGE = 120, 1000
"""Page sizes of a query of events, newest first. The first page usually contains a snapshot."""

DELTA_LIFE = timedelta(hours=1)


class TaskLog:
    """Event logs of all tasks in one table."""

    def __init__(self, reads: Reads, blobs: Blobs) -> None:
        self._reads, self._blobs = reads, blobs

    # ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

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
            packed = await self._unpacked("task", rows[keys.snapshot_sort(base)])
            entries.append(Numbered(base, parsed(Task, packed)))
        for generation in range(base + 1, head.generation + 1):
            item = rows.get(keys.event_sort(generation)) or await self._row(key, generation, head)
            if item is None:
                return None
            entries.append(await self.entry(generation, item))
        return Log(head, tuple(entries))

    async def _row(self, key: TaskKey, generation: int, head: Head) -> Item | None:
        """Return the item of an event, or None if it is missing.

        A query may return the task's new head without the new events (at most two) of the same transaction. So the read
        of these events is retried for a moment.
        """
        for attempt in range(MAX_ATTEMPTS):
            item = await self._reads.get(keys.event_key(key, generation))
            if item is not None or generation <= head.generation - 2:
                return item
            await jitter(attempt)
        return None

    async def entry(self, generation: int, item: Item) -> Numbered:
        """Return the event of an item of the log. Raises StoreCorrupt if it or its blob is missing or unreadable."""
        packed = await self._unpacked("event", item)
        if packed is None:
            raise StoreCorrupt("An event of the log is empty.")
        sent = await self._unpacked("message", item)
        message = parsed(Message, sent) if sent is not None else None
        return Numbered(generation, event_of(packed), message, item.get("key", ""), request_of(item))

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
            packed = await self._unpacked("message", item) if item is not None else None
            if item is not None and packed is not None:
                return QueuedMessage(parsed(Message, packed), request_of(item))
        except StoreCorrupt:
            logger.exception("A queued message cannot be read.", extra={"task_id": task.task_id})
        # Do not raise an error, because the turn must begin and fail: other turns are queued behind it.
        logger.error("A queued message is missing.", extra={"task_id": task.task_id})
        return QueuedMessage()

    # ── Rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def event_row(self, event: NewEvent, times: Times) -> Put:
        """Return the write of an event's item. The item gets a timer if a webhook may receive the event."""
        row: Item = {
            "token": event.token,
            **await self._payload(event.task, f"{event.generation}-event", "event", event_bytes(event.event)),
        }
        if event.message is not None:
            message = event.message.SerializeToString()
            row |= await self._payload(event.task, f"{event.generation}-message", "message", message)
        if event.key:
            row["key"] = event.key
        if event.request:
            row["request"] = json.dumps(event.request)
        if event.notifies:
            row |= {"due_shard": keys.push_timer_shard(event.task), "due_at": times.lease_until}
        return Put(keys.event_key(event.task, event.generation), {**row, **times.ttl})

    async def snapshot_row(self, task: TaskKey, generation: int, folded: Task, times: Times) -> Put:
        """Return the write of a task's snapshot. `folded` is the task after event `generation`."""
        payload = await self._payload(task, f"{generation}-task", "task", folded.SerializeToString())
        return Put(keys.snapshot_key(task, generation), {**payload, **times.ttl})

    async def queued_row(
        self, task: TaskKey, turn_id: str, message: Message, request: Mapping[str, Any], times: Times
    ) -> Put:
        """Return the write of a message that is queued for a later turn of its task."""
        row = await self._payload(task, f"{turn_id}-message", "message", message.SerializeToString())
        if request:
            row["request"] = json.dumps(request)
        return Put(keys.queued_message_key(task, turn_id), {**row, **times.ttl})

    def delta_row(self, task: TaskKey, batch: DeltaBatch, times: Times) -> Put:
        """Return the write of a batch of stream deltas. The batch expires after DELTA_LIFE."""
        expires = times.seconds + int(DELTA_LIFE.total_seconds())
        row = {"v": VERSION, "chunks": chunks_text(batch.chunks), "expires": expires}
        if batch.continues is not None:
            until, text = batch.continues.until, batch.continues.text
            row["continues"] = json.dumps([until.generation, until.fence, until.n, text])
        if named := speakers(batch):
            row["speakers"] = json.dumps(named)
        first = cursor_of(batch)
        return Put(keys.delta_key(task, first.generation, first.fence, first.n), row)

    async def _payload(self, task: TaskKey, file: str, name: str, packed: bytes) -> Item:
        """Return the attribute with a payload's bytes, or with the name of a new blob if the payload is large."""
        if len(packed) <= LARGE_BYTES:
            return {name: packed}
        # Store the blob before the item, because an item must not refer to a missing blob. The bucket's lifecycle rule
        # deletes unused blobs. The name contains a hash of the content, so a second attempt writes the same blob.
        blob = f"{TASKS}/{task.owner}/{task.task_id}/{file}-{hashlib.sha256(packed).hexdigest()[:32]}"
        await self._blobs.put(blob, packed)
        return {f"{name}_blob": blob}

    async def _unpacked(self, name: str, item: Item) -> bytes | None:
        if f"{name}_blob" not in item:
            packed = item.get(name)
            if packed is not None and not isinstance(packed, bytes):
                raise StoreCorrupt("A payload of the log cannot be read.")
            return packed
        blob = await self._blobs.get(item[f"{name}_blob"])
        if blob is None:
            raise StoreCorrupt("The payload of an event is missing.")
        return blob
