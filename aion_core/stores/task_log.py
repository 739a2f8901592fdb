"""Event log of a task: its items in the table, and blobs for payloads that are too large for an item."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from aion_core.errors import StoreCorrupt
from aion_core.ports import (
    Blobs,
    ContextKey,
    Cursor,
    Delta,
    DeltaBatch,
    FollowUp,
    Head,
    Log,
    Numbered,
    OpenText,
    TaskKey,
)
from aion_core.ports.schema import BY_AGENT, BY_CONTEXT, TASKS
from aion_core.ports.table import LAST, SORT, Absent, AtMost, Change, Either, Item, Key, Put, Update
from aion_core.protocol.types import Event, Message, StreamResponse, Task, TaskState, stream_response, unwrap
from aion_core.stores import keys
from aion_core.stores.items import LARGE_BYTES, Reads, readable
from aion_core.stores.retries import MAX_ATTEMPTS, jitter
from aion_core.tasks import lifecycle
from aion_core.tasks.contexts import VERSION, Times, milliseconds
from aion_core.tasks.lifecycle import NewEvent, head_of
from aion_core.tasks.transitions import QueuedMessage

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
        """See `ports.TaskStore.head`."""
        item = await self._reads.get(keys.head_key(key))
        return head_of(key, item) if item is not None else None

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
            entries.append(Numbered(base, _parsed(Task, packed)))
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
        asked = await self._unpacked("asked", item)
        message = _parsed(Message, asked) if asked is not None else None
        return Numbered(generation, event_of(packed), message, item.get("key", ""), request_of(item))

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """See `ports.TaskStore.deltas`."""
        rows = await self._reads.query(keys.delta_partition(key), keys.delta_sort(since), LAST)
        return [delta_batch_of(row) for row in rows]

    async def holds(self, key: TaskKey, generation: int, token: str) -> bool:
        """Return True if the event is stored with this token: an earlier write has succeeded without a response."""
        item = await self._reads.get(keys.event_key(key, generation))
        return item is not None and item.get("token") == token

    async def queued(self, task: TaskKey, turn_id: str) -> QueuedMessage:
        """Return the message queued for the turn, or an empty QueuedMessage if it is missing or unreadable."""
        item = await self._reads.get(keys.queued_message_key(task, turn_id))
        try:
            packed = await self._unpacked("asked", item) if item is not None else None
            if item is not None and packed is not None:
                return QueuedMessage(_parsed(Message, packed), request_of(item))
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
            asked = event.message.SerializeToString()
            row |= await self._payload(event.task, f"{event.generation}-asked", "asked", asked)
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

    async def queued_row(self, follow_up: FollowUp, times: Times) -> Put:
        """Return the write of a follow-up message that is queued for a later turn of its task."""
        task, turn = follow_up.head.key, follow_up.turn
        row = await self._payload(task, f"{turn.id}-asked", "asked", follow_up.message.SerializeToString())
        if follow_up.request:
            row["request"] = json.dumps(follow_up.request)
        return Put(keys.queued_message_key(task, turn.id), {**row, **times.ttl})

    def delta_row(self, task: TaskKey, batch: DeltaBatch, times: Times) -> Put:
        """Return the write of a batch of stream deltas. The batch expires after DELTA_LIFE."""
        expires = times.seconds + int(DELTA_LIFE.total_seconds())
        row = {"v": VERSION, "chunks": chunks_text(batch.chunks), "expires": expires}
        if batch.continues is not None:
            until, text = batch.continues.until, batch.continues.text
            row["continues"] = json.dumps([until.generation, until.fence, until.n, text])
        if speakers := _speakers(batch):
            row["speakers"] = json.dumps(speakers)
        return Put(keys.delta_key(task, cursor_of(batch)), row)

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


def _parsed(kind: Any, packed: bytes | None) -> Any:
    if packed is None:
        raise StoreCorrupt("A record of a task is empty.")
    try:
        return kind.FromString(packed)
    except Exception as error:  # protobuf raises its own DecodeError
        raise StoreCorrupt("A record of a task cannot be read.") from error


def head_item(head: Head) -> Item:
    """Return the attributes of a task's head, without its key and TTL."""
    return {
        "agent": head.context.agent,
        "context_id": head.context.context_id,
        "state": TaskState.Name(head.state),
        "timestamp": milliseconds(head.timestamp),
        "generation": head.generation,
        "fence": head.fence,
        BY_AGENT.partition: keys.listing_agent(head.context.owner, head.context.agent),
        BY_CONTEXT.partition: keys.listing_context(head.context),
        BY_AGENT.sort: listing_at(head),
        **lifecycle.subscriber_attributes(head),
    }


def listing_at(head: Head) -> str:
    """Return a task's sort key in the list indexes: its status time and its id."""
    return keys.listing_at(milliseconds(head.timestamp), head.key.task_id)


def event_bytes(event: Event) -> bytes:
    """Serialize an event as protobuf for the log."""
    return stream_response(event).SerializeToString()


def event_of(packed: bytes) -> Event:
    """Parse an event from its stored protobuf bytes. Raises StoreCorrupt if they are invalid."""
    try:
        return unwrap(StreamResponse.FromString(packed))
    except Exception as error:  # protobuf raises its own DecodeError, and `unwrap` raises ValueError
        raise StoreCorrupt("An event of the log cannot be read.") from error


def request_of(item: Item) -> Mapping[str, Any]:
    """Parse the request's metadata from an item. Return an empty mapping if there is no metadata."""
    with readable("A request's metadata"):
        found: Mapping[str, Any] = json.loads(item["request"]) if "request" in item else {}
    return found


def chunks_text(chunks: tuple[Delta, ...]) -> str:
    """Return the chunks of a batch as JSON."""
    # Escape to ASCII, because a model may split a surrogate pair between two chunks, and half a pair has no UTF-8 form.
    return json.dumps([[chunk.text, chunk.append, chunk.last, chunk.reason] for chunk in chunks])


def delta_batch_of(item: Item) -> DeltaBatch:
    """Parse a batch of stream deltas from its item. Raises StoreCorrupt if the item is invalid."""
    with readable("A batch of stream deltas"):
        generation, fence, first = (int(field) for field in item[SORT].split("."))
        speakers = json.loads(item["speakers"]) if "speakers" in item else {}
        chunks = tuple(
            Delta(text, append, last, reason, speakers.get(str(place)))
            for place, (text, append, last, reason) in enumerate(json.loads(item["chunks"]))
        )
        return DeltaBatch(generation, fence, first, chunks, _open_text_of(item, speakers))


def _open_text_of(item: Item, speakers: Mapping[str, Mapping[str, str]]) -> OpenText | None:
    if "continues" not in item:
        return None
    *until, text = json.loads(item["continues"])
    return OpenText(Cursor(*until), text, speakers.get(_BEFORE))


_BEFORE = "before"
"""Key in a batch's `speakers`, for the speaker of the text that began before the event and continues in the batch."""


def _speakers(batch: DeltaBatch) -> dict[str, Mapping[str, str]]:
    """Return the speakers in a batch, by the position of their chunk. Older versions of aion ignore this attribute."""
    speakers = {str(place): chunk.speaker for place, chunk in enumerate(batch.chunks) if chunk.speaker}
    before = batch.continues.speaker if batch.continues is not None else None
    return {**speakers, _BEFORE: before} if before else speakers


def cursor_of(batch: DeltaBatch) -> Cursor:
    """Return the position of a batch's first chunk. The batch's key contains it."""
    return Cursor(batch.generation, batch.fence, batch.first)


def message_row(key: Key, task_id: str, content_hash: bytes, times: Times) -> Put:
    """Return the write of a message's record. The table refuses it if the record exists and has not expired."""
    # Allow the write to replace an expired record, because DynamoDB deletes expired items late.
    only_if = Either((Absent(), AtMost("expires", times.seconds)))
    return Put(key, {"task_id": task_id, "content": content_hash, **times.ttl}, only_if)


def context_update(context: ContextKey, change: Change) -> Update:
    """Return the write for a context's change. If the timer is set or removed, its index partition changes too."""
    shard = {"due_shard": keys.timer_shard(context)}
    if "due_at" in change.values:
        change = replace(change, values={**change.values, **shard})
    if "due_at" in change.defaults:
        change = replace(change, defaults={**change.defaults, **shard})
    if "due_at" in change.remove:
        change = replace(change, remove=(*change.remove, "due_shard"))
    return Update(keys.context_key(context), change)


def message_keys_of(context: ContextKey, message_id: str, idempotency_key: str) -> list[Key]:
    """Return the keys of a message's records: by messageId and, if it has one, by Idempotency-Key."""
    first = [keys.idempotency_key(context.owner, context.agent, idempotency_key)] if idempotency_key else []
    return [*first, keys.message_key(context, message_id)]
