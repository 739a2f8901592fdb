"""The records of the task log as items of the table, and back. Pure.

Items carry `v`, the version of their shape; this code reads `VERSION` and the one before it.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from aion_core.aws import keys
from aion_core.errors import StoreCorrupt
from aion_core.ports import ContextKey, Cursor, Delta, DeltaBatch, Head, PushEvents, TaskKey, Turn
from aion_core.ports.schema import BY_AGENT, BY_CONTEXT
from aion_core.protocol.types import Event, StreamResponse, TaskState, stream_response, unwrap
from aion_core.tasks.contexts import ContextRecord

Item = dict[str, Any]

VERSION = 2
"""2: a context counts the changes of its line, and is due; a head is listed; a turn has hops."""


def number(value: int) -> Item:
    """Return the attribute of a whole number."""
    return {"N": str(value)}


def text(value: str) -> Item:
    """Return the attribute of a text."""
    return {"S": value}


def milliseconds(at: datetime) -> int:
    """Return the time as whole milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def state_name(state: TaskState) -> str:
    """Return the state as the table spells it, which is the specification's way."""
    return TaskState.Name(state)


def head_attributes(head: Head) -> Item:
    """Return what a head's item holds beside its key."""
    return {
        "v": number(VERSION),
        "agent": text(head.context.agent),
        "context_id": text(head.context.context_id),
        "state": text(state_name(head.state)),
        "timestamp": number(milliseconds(head.timestamp)),
        "generation": number(head.generation),
        "fence": number(head.fence),
        BY_AGENT.partition: text(keys.listing_agent(head.context.owner, head.context.agent)),
        BY_CONTEXT.partition: text(keys.listing_context(head.context)),
        BY_AGENT.sort: text(listing_at(head)),
        **push_attributes(head),
    }


def push_attributes(head: Head) -> Item:
    """Return what a head's item says of who listens; nothing where nobody does."""
    if head.push_events is None:
        return {}
    return {"push_epoch": number(head.push_epoch), "push_events": text(head.push_events.value)}


def listing_at(head: Head) -> str:
    """Return where the task stands in the lists of tasks."""
    return keys.listing_at(milliseconds(head.timestamp), head.key.task_id)


def head_of(key: TaskKey, item: Item) -> Head:
    """Return the head that the item holds."""
    return Head(
        key=key,
        context=ContextKey(key.owner, item["agent"]["S"], item["context_id"]["S"]),
        state=cast("TaskState", TaskState.Value(item["state"]["S"])),
        timestamp=datetime.fromtimestamp(int(item["timestamp"]["N"]) / 1000, UTC),
        generation=int(item["generation"]["N"]),
        fence=int(item["fence"]["N"]),
        push_epoch=int(item.get("push_epoch", {"N": "0"})["N"]),
        push_events=PushEvents(item["push_events"]["S"]) if "push_events" in item else None,
    )


def turn_attribute(turn: Turn) -> Item:
    """Return a turn as a context's item holds it."""
    return {
        "M": {
            "id": text(turn.id),
            "task_id": text(turn.task_id),
            "asked": number(turn.asked),
            "tries": number(turn.tries),
            "hops": number(turn.hops),
        }
    }


def turn_of(attribute: Item) -> Turn:
    """Return the turn that the attribute holds."""
    fields = attribute["M"]
    return Turn(
        id=fields["id"]["S"],
        task_id=fields["task_id"]["S"],
        asked=int(fields["asked"]["N"]),
        tries=int(fields["tries"]["N"]),
        # Items of version 1 know no hops.
        hops=int(fields.get("hops", {"N": "0"})["N"]),
    )


def turns_attribute(turns: Iterable[Turn]) -> Item:
    """Return a context's line of waiting turns."""
    return {"L": [turn_attribute(turn) for turn in turns]}


def context_of(item: Item, *, lives: bool) -> ContextRecord:
    """Return the context that the item holds; of one that has expired, the fence, which must go on growing."""
    fence = int(item.get("fence", {"N": "0"})["N"])
    line = int(item.get("line", {"N": "0"})["N"])
    if not lives:
        return ContextRecord(fence, line, expired=True)
    return ContextRecord(
        fence=fence,
        line=line,
        holder=item["holder"]["S"] if "holder" in item else "",
        until=int(item.get("until", {"N": "0"})["N"]),
        running=turn_of(item["running"]) if "running" in item else None,
        waiting=tuple(turn_of(turn) for turn in item.get("waiting", {"L": []})["L"]),
        interrupted=item["interrupted"]["S"] if "interrupted" in item else None,
    )


def event_bytes(event: Event) -> bytes:
    """Return the event as the log keeps it."""
    return stream_response(event).SerializeToString()


def event_of(packed: bytes) -> Event:
    """Return the event; raises StoreCorrupt where the bytes hold none."""
    try:
        return unwrap(StreamResponse.FromString(packed))
    except Exception as error:  # protobuf raises its own DecodeError, unwrap a ValueError
        raise StoreCorrupt("An event of the log cannot be read.") from error


def chunks_attribute(chunks: tuple[Delta, ...]) -> Item:
    """Return a batch's chunks as its item holds them."""
    # ASCII JSON: half a surrogate pair at the edge of a chunk has no UTF-8, and a model may well cut there.
    return text(json.dumps([[chunk.text, chunk.append, chunk.last, chunk.reason] for chunk in chunks]))


def delta_batch_of(item: Item) -> DeltaBatch:
    """Return the batch that the item holds."""
    generation, fence, first = (int(field) for field in item["sk"]["S"].split("."))
    chunks = tuple(Delta(*chunk) for chunk in json.loads(item["chunks"]["S"]))
    return DeltaBatch(generation, fence, first, chunks)


def place_of(batch: DeltaBatch) -> Cursor:
    """Return where the batch stands."""
    return Cursor(batch.generation, batch.fence, batch.first)
