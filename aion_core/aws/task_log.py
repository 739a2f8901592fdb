"""A task's rows on DynamoDB: how each is made, and how they are read as a log; what is too large for a row lies in S3."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from aion_core.aws import items, keys
from aion_core.aws.items import Item
from aion_core.aws.table import Table
from aion_core.aws.terms import Terms
from aion_core.aws.writes import Write, put
from aion_core.errors import StoreCorrupt
from aion_core.ports import Blobs, Cursor, DeltaBatch, FollowUp, Head, Lease, Log, Numbered, TaskKey
from aion_core.ports.schema import TASKS
from aion_core.protocol.types import Event, Message, Task

logger = logging.getLogger(__name__)

LARGE_BYTES = 32 * 1024
"""From here on a payload lies in S3, which is cheaper than the write units of a row."""

FIRST_PAGE, LARGEST_PAGE = 120, 1000
"""How many rows of a log a query reads, newest first: a snapshot is not far."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that waits for its task, with what came beside it."""

    message: Message
    request: Mapping[str, Any]


class TaskLog:
    """The rows of the tasks of one table."""

    def __init__(self, reads: Table, blobs: Blobs, terms: Terms, *, table: str) -> None:
        self._reads, self._blobs, self._terms, self._table = reads, blobs, terms, table

    # ── What is read ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def head(self, key: TaskKey) -> Head | None:
        """See `ports.TaskStore.head`."""
        item = await self._reads.get(keys.head_key(key))
        return items.head_of(key, item) if item is not None else None

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.log`."""
        if after:
            log = await self._log_after(key, after)
            if log is not None:
                return log
        return await self._log_from_snapshot(key)

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """See `ports.TaskStore.every_event`."""
        return await self._log_after(key, after) or await self._log_from_snapshot(key)

    async def _log_after(self, key: TaskKey, after: int) -> Log | None:
        """Return the log after that event, None where some of it is gone."""
        found = await self._reads.query(keys.task_partition(key), keys.event_sort(after + 1), keys.HEAD)
        if not found or found[-1]["sk"]["S"] != keys.HEAD:
            return None
        return await self._log_of(key, items.head_of(key, found[-1]), after, _by_sort(found[:-1]))

    async def _log_from_snapshot(self, key: TaskKey) -> Log | None:
        """Return the log from the newest snapshot on, or from the first event; read backwards, as snapshots are near."""
        rows: dict[str, Item] = {}
        pages = self._reads.pages(
            keys.task_partition(key),
            keys.event_sort(1),
            keys.HEAD,
            limit=FIRST_PAGE,
            largest=LARGEST_PAGE,
            ScanIndexForward=False,
        )
        head: Head | None = None
        base = 0
        try:
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    sort = item["sk"]["S"]
                    if head is None:
                        if sort != keys.HEAD:
                            return None
                        head = items.head_of(key, item)
                        continue
                    rows[sort] = item
                    generation = keys.snapshot_of(sort)
                    if generation is not None and generation <= head.generation:
                        base = generation
                        break
                if base:
                    break
        finally:
            await pages.aclose()
        return await self._log_of(key, head, base, rows) if head is not None else None

    async def _log_of(self, key: TaskKey, head: Head, base: int, rows: Mapping[str, Item]) -> Log | None:
        """Return the log of these rows; None where they have a gap."""
        entries: list[Numbered] = []
        if base and keys.snapshot_sort(base) in rows:
            packed = await self._unpacked("task", rows[keys.snapshot_sort(base)])
            if packed is None:
                raise StoreCorrupt("A snapshot of a task holds nothing.")
            entries.append(Numbered(base, Task.FromString(packed)))
        for generation in range(base + 1, head.generation + 1):
            # A query may meet the head before the row that was written with it: then the row is there by now.
            item = rows.get(keys.event_sort(generation)) or await self._reads.get(keys.event_key(key, generation))
            if item is None:
                return None
            entries.append(await self._entry(generation, item))
        return Log(head, tuple(entries))

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        rows = await self._reads.query(keys.delta_partition(key), keys.delta_sort(since), "~")
        return [items.delta_batch_of(row) for row in rows]

    async def holds(self, key: TaskKey, generation: int, token: str) -> bool:
        """Tell whether a write whose answer was lost had been made after all."""
        item = await self._reads.get(keys.event_key(key, generation))
        return item is not None and item["token"]["S"] == token

    # ── Rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def put_event(
        self,
        task: TaskKey,
        generation: int,
        event: Event,
        *,
        token: str = "",
        key: str = "",
        asked: Message | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> Write:
        """Return the write of an event's row: with the message that it takes in, and what came beside that."""
        attributes = {
            "token": items.text(token),
            **await self._payload(task, f"{generation}-event", "event", items.event_bytes(event)),
        }
        if asked is not None:
            attributes |= await self._payload(task, f"{generation}-asked", "asked", asked.SerializeToString())
        if key:
            attributes["key"] = items.text(key)
        if request:
            attributes["request"] = items.text(json.dumps(request))
        return put(self._table, keys.event_key(task, generation), {**attributes, **self._terms.keeping()})

    async def put_snapshot(self, task: TaskKey, generation: int, folded: Task) -> Write:
        """Return the write of the task as it is after that event."""
        attributes = await self._payload(task, f"{generation}-task", "task", folded.SerializeToString())
        return put(self._table, keys.snapshot_key(task, generation), {**attributes, **self._terms.keeping()})

    async def put_asked(self, follow_up: FollowUp) -> Write:
        """Return the write of a message that waits for its task."""
        task, turn = follow_up.head.key, follow_up.turn
        attributes = await self._payload(task, f"{turn.id}-asked", "asked", follow_up.asked.SerializeToString())
        if follow_up.request:
            attributes["request"] = items.text(json.dumps(follow_up.request))
        return put(self._table, keys.asked_key(task, turn.id), {**attributes, **self._terms.keeping()})

    async def asked(self, task: TaskKey, turn_id: str) -> Waiting | None:
        """Return the message that waits for its task under the turn; None where it is gone, or cannot be read."""
        item = await self._reads.get(keys.asked_key(task, turn_id))
        try:
            packed = await self._unpacked("asked", item) if item is not None else None
        except StoreCorrupt:
            packed = None
        if item is None or packed is None:
            # Its turn has to begin all the same: it fails for want of a message, and nobody waits behind it for ever.
            logger.error("A message that waits is gone.", extra={"task_id": task.task_id})
            return None
        return Waiting(Message.FromString(packed), _request_of(item))

    async def _payload(self, task: TaskKey, place: str, name: str, packed: bytes) -> Item:
        """Return the attribute that holds the bytes, or says where they lie."""
        if len(packed) <= LARGE_BYTES:
            return {name: {"B": packed}}
        # The blob first: a row never points at nothing, and a blob that no row names expires with the bucket.
        blob = f"{TASKS}/{task.owner}/{task.task_id}/{place}-{uuid4()}"
        await self._blobs.put(blob, packed)
        return {f"{name}_blob": items.text(blob)}

    async def _entry(self, generation: int, item: Item) -> Numbered:
        packed = await self._unpacked("event", item)
        if packed is None:
            raise StoreCorrupt("An event of the log holds nothing.")
        asked = await self._unpacked("asked", item)
        return Numbered(
            generation,
            items.event_of(packed),
            Message.FromString(asked) if asked is not None else None,
            item["key"]["S"] if "key" in item else "",
            _request_of(item),
        )

    async def _unpacked(self, name: str, item: Item) -> bytes | None:
        if f"{name}_blob" not in item:
            return item[name]["B"] if name in item else None
        packed = await self._blobs.get(item[f"{name}_blob"]["S"])
        if packed is None:
            raise StoreCorrupt("The payload of an event is missing.")
        return packed


def token_of(lease: Lease, after: Head, event: Event) -> str:
    """Return what tells an event's row from another's: the same for the same call, made again as its answer was lost."""
    said = hashlib.sha256(items.event_bytes(event)).hexdigest()
    return f"{lease.holder}#{lease.fence}#{after.generation}#{said}"


def _request_of(item: Item) -> Mapping[str, Any]:
    return json.loads(item["request"]["S"]) if "request" in item else {}


def _by_sort(found: Sequence[Item]) -> dict[str, Item]:
    return {item["sk"]["S"]: item for item in found}
