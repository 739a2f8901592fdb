"""Rows of a task's log: its events, snapshots and queued messages as items of the table.

A payload that is too large for an item is stored as a blob, and the item names the blob.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from aion_core.engine.records import Numbered
from aion_core.engine.task import projection
from aion_core.engine.task.transition import NewEvent, QueuedMessage
from aion_core.errors import StoreCorrupt
from aion_core.protocol.types import Event, Message, StreamResponse, Task, stream_response_bytes, unwrap
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import Item, readable
from aion_core.table.keys import PushTimerOf, TaskKey
from aion_core.table.payloads import LARGE_BYTES
from aion_core.table.schema import TASKS
from aion_core.table.times import Times
from aion_core.table.writes import Put


class LogRows:
    """Items of the logs of all tasks, made and read with the blobs of their large payloads."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def event_row(self, event: NewEvent, times: Times) -> Put:
        """Return the write of an event's item. The item gets a timer if a webhook may receive the event."""
        row: Item = {
            "token": event.token,
            **await self.payload(event.task, f"{event.generation}-event", "event", stream_response_bytes(event.event)),
        }
        if event.message is not None:
            message = event.message.SerializeToString()
            row |= await self.payload(event.task, f"{event.generation}-message", "message", message)
        if event.key:
            row["key"] = event.key
        if event.request:
            row["request"] = json.dumps(event.request)
        if event.notifies:
            shard = keys.push_timer_shard(event.task, PushTimerOf.WAIT)
            row |= {"due_shard": shard, "due_at": times.lease_until}
        return Put(keys.event_key(event.task, event.generation), {**row, **times.stamp(event.task.owner)})

    async def event(self, generation: int, item: Item) -> Numbered:
        """Return the event of an item of the log. Raises StoreCorrupt if it or its blob is missing or unreadable."""
        packed = await self.unpacked("event", item)
        if packed is None:
            raise StoreCorrupt("An event of the log is empty.")
        sent = await self.unpacked("message", item)
        message = _parsed(Message, sent) if sent is not None else None
        return Numbered(generation, _event_of(packed), message, item.get("key", ""), _request_of(item))

    async def snapshot_row(self, task: TaskKey, generation: int, folded: Task, times: Times) -> Put:
        """Return the write of a task's snapshot. `folded` is the task after event `generation`."""
        packed = projection.with_message_once(folded).SerializeToString()
        payload = await self.payload(task, f"{generation}-task", "task", packed)
        return Put(keys.snapshot_key(task, generation), {**payload, **times.stamp(task.owner)})

    async def snapshot(self, item: Item) -> Task:
        """Return the task in the item of a snapshot. Raises StoreCorrupt if it or its blob is missing or unreadable."""
        task: Task = _parsed(Task, await self.unpacked("task", item))
        return task

    async def queued_row(
        self, task: TaskKey, turn_id: str, message: Message, request: Mapping[str, Any], times: Times
    ) -> Put:
        """Return the write of a message that is queued for a later turn of its task."""
        row = await self.payload(task, f"{turn_id}-message", "message", message.SerializeToString())
        if request:
            row["request"] = json.dumps(request)
        return Put(keys.queued_message_key(task, turn_id), {**row, **times.stamp(task.owner)})

    async def queued_message(self, item: Item) -> QueuedMessage:
        """Return the message in the item of a queued message. Raises StoreCorrupt if it or its blob is unreadable."""
        packed = await self.unpacked("message", item)
        message = _parsed(Message, packed) if packed is not None else None
        return QueuedMessage(message, _request_of(item))

    async def payload(self, task: TaskKey, file: str, name: str, packed: bytes) -> Item:
        """Return the attribute with a payload's bytes, or with the name of a new blob if the payload is large."""
        if len(packed) <= LARGE_BYTES:
            return {name: packed}
        # Store the blob before the item, because an item must not refer to a missing blob. aion_core/table/blobs.py
        # says what deletes unused blobs. The name contains a hash of the content, so a second attempt writes the same blob.
        blob = f"{keys.owner_folder(TASKS, task.owner)}/{task.task_id}/{file}-{hashlib.sha256(packed).hexdigest()[:32]}"
        await self._blobs.put(blob, packed)
        return {f"{name}_blob": blob}

    async def unpacked(self, name: str, item: Item) -> bytes | None:
        """Return the bytes of a payload in an item or its blob; None without it. Raises StoreCorrupt."""
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
    """Parse a protobuf message of this kind from a row. Raises StoreCorrupt without bytes."""
    if packed is None:
        raise StoreCorrupt("A record of a task is empty.")
    try:
        return kind.FromString(packed)
    except Exception as error:  # protobuf raises its own DecodeError
        raise StoreCorrupt("A record of a task cannot be read.") from error


def _event_of(packed: bytes) -> Event:
    """Parse an event from its stored protobuf bytes. Raises StoreCorrupt if they are invalid."""
    try:
        return unwrap(StreamResponse.FromString(packed))
    except Exception as error:  # protobuf raises its own DecodeError, and `unwrap` raises ValueError
        raise StoreCorrupt("An event of the log cannot be read.") from error


def _request_of(item: Item) -> Mapping[str, Any]:
    """Parse the request's metadata from an item. Return an empty mapping if there is no metadata."""
    with readable("A request's metadata"):
        found: Mapping[str, Any] = json.loads(item["request"]) if "request" in item else {}
    return found
