"""Batches of streamed text as items of the table, and back. Pure."""

import json
from collections.abc import Mapping
from datetime import timedelta

from aion_core.engine.records import Cursor, Delta, DeltaBatch, OpenText
from aion_core.table import keys
from aion_core.table.item import SORT, Item, readable
from aion_core.table.keys import TaskKey
from aion_core.table.stamp import stamp
from aion_core.table.times import Times
from aion_core.table.writes import Put

DELTA_LIFE = timedelta(hours=1)
"""Time for which streamed text is stored."""

_BEFORE = "before"
"""Key in a batch's `speakers`, for the speaker of the text that began before the event and continues in the batch."""


def delta_row(task: TaskKey, batch: DeltaBatch, times: Times) -> Put:
    """Return the write of a batch of stream deltas. The batch expires after DELTA_LIFE."""
    expires = times.seconds + int(DELTA_LIFE.total_seconds())
    row = {**stamp(task.owner, expires), "chunks": _chunks_text(batch.chunks)}
    if batch.continues is not None:
        until, text = batch.continues.until, batch.continues.text
        row["continues"] = json.dumps([until.generation, until.fence, until.n, text])
    if named := _speakers(batch):
        row["speakers"] = json.dumps(named)
    return Put(keys.delta_key(task, batch.generation, batch.fence, batch.first), row)


def _chunks_text(chunks: tuple[Delta, ...]) -> str:
    """Return the chunks of a batch as JSON."""
    # Escape to ASCII, because a model may split a surrogate pair between two chunks, and half a pair has no UTF-8 form.
    return json.dumps([[chunk.text, chunk.append, chunk.last, chunk.reason] for chunk in chunks])


def _speakers(batch: DeltaBatch) -> dict[str, Mapping[str, str]]:
    """Return the speakers in a batch, by the position of their chunk."""
    speakers = {str(place): chunk.speaker for place, chunk in enumerate(batch.chunks) if chunk.speaker}
    before = batch.continues.speaker if batch.continues is not None else None
    return {**speakers, _BEFORE: before} if before else speakers


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
