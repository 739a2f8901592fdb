"""Rows of a task: its head, events, streamed text and messages as items, and back. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from aion_core.engine.records import Cursor, Delta, DeltaBatch, Head, OpenText
from aion_core.engine.task import subscribers
from aion_core.errors import StoreCorrupt
from aion_core.protocol.types import Event, StreamResponse, TaskState, stream_response, unwrap
from aion_core.table import keys
from aion_core.table.item import SORT, Item, readable
from aion_core.table.schema import BY_AGENT, BY_CONTEXT
from aion_core.table.times import milliseconds


def parsed(kind: Any, packed: bytes | None) -> Any:
    """Parse a protobuf message of this kind from a row. Raises StoreCorrupt without bytes."""
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
        **subscribers.subscriber_attributes(head),
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


def speakers(batch: DeltaBatch) -> dict[str, Mapping[str, str]]:
    """Return the speakers in a batch, by the position of their chunk."""
    speakers = {str(place): chunk.speaker for place, chunk in enumerate(batch.chunks) if chunk.speaker}
    before = batch.continues.speaker if batch.continues is not None else None
    return {**speakers, _BEFORE: before} if before else speakers


def cursor_of(batch: DeltaBatch) -> Cursor:
    """Return the position of a batch's first chunk. The batch's key contains it."""
    return Cursor(batch.generation, batch.fence, batch.first)
