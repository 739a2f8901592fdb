"""The items of tasks: heads, events, snapshots, waiting messages and stream deltas, and back. Pure.

Items carry `v`, the version of their shape; this code reads `contexts.VERSION` and the one before it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aion_core.errors import StoreCorrupt
from aion_core.ports import Cursor, Delta, DeltaBatch, Head
from aion_core.ports.schema import BY_AGENT, BY_CONTEXT
from aion_core.ports.table import SORT, Item
from aion_core.protocol.types import Event, StreamResponse, TaskState, stream_response, unwrap
from aion_core.stores import keys
from aion_core.stores.reads import milliseconds
from aion_core.tasks import heads


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Raise StoreCorrupt, with this name of the item, where its attributes are not as they have to be."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise StoreCorrupt(f"{what} cannot be read.") from error


def head_item(head: Head) -> Item:
    """Return the attributes of a head beside its key and TTL."""
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
        **heads.subscribers(head),
    }


def listing_at(head: Head) -> str:
    """Return the task's place in the lists of tasks."""
    return keys.listing_at(milliseconds(head.timestamp), head.key.task_id)


def event_bytes(event: Event) -> bytes:
    """Return the event as the log stores it."""
    return stream_response(event).SerializeToString()


def event_of(packed: bytes) -> Event:
    """Return the event; raises StoreCorrupt."""
    try:
        return unwrap(StreamResponse.FromString(packed))
    except Exception as error:  # protobuf raises its own DecodeError, unwrap a ValueError
        raise StoreCorrupt("An event of the log cannot be read.") from error


def request_of(item: Item) -> Mapping[str, Any]:
    """Return the request's metadata that the item holds."""
    with readable("A request's metadata"):
        found: Mapping[str, Any] = json.loads(item["request"]) if "request" in item else {}
    return found


def chunks_text(chunks: tuple[Delta, ...]) -> str:
    """Return a batch's chunks as its item holds them."""
    # ASCII JSON: half a surrogate pair at the edge of a chunk has no UTF-8, and a model may well cut there.
    return json.dumps([[chunk.text, chunk.append, chunk.last, chunk.reason] for chunk in chunks])


def delta_batch_of(item: Item) -> DeltaBatch:
    """Return the batch that the item holds; raises StoreCorrupt."""
    with readable("A batch of stream deltas"):
        generation, fence, first = (int(field) for field in item[SORT].split("."))
        return DeltaBatch(generation, fence, first, tuple(Delta(*chunk) for chunk in json.loads(item["chunks"])))


def place_of(batch: DeltaBatch) -> Cursor:
    """Return the place of the batch's first chunk."""
    return Cursor(batch.generation, batch.fence, batch.first)
