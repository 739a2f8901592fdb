"""Subscription to a task's growing log, from any process. Yields events without a gap, and the chunks between them.

The writer of the chunks (`DeltaWriter`) and their readers follow a protocol. By it, a stream is complete or restarts
its text:

- The chunks after event g under fence (fencing token) f are numbered 0, 1, 2, ... The first chunk of each model call
  starts a text (`append: false`). Every other chunk continues the chunk before it. If a text is open at event g, chunk
  0 continues the text, and its batch has the text so far and the position of its last chunk.
- The writer stores batches in the order of their numbers, and never changes a batch. After a failed write it writes the
  same batch again before any later one. So the stored batches under (g, f) hold the chunks from 0 on, without a gap.
- A higher fence after the same event belongs to another lease holder. Its chunks start from 0 and replace the chunks
  under the lower fence.
- A reader with cursor (g, f, n) has received the chunks before n, perhaps from the turn's own process before they were
  stored. Until it has read the batch of chunk n - 1, each read begins at event g. If a text is open after that chunk,
  the reader is told whose text it is.
- A reader receives chunk n next, or a chunk that starts a text. After missing chunks (expired, or never stored) it
  receives nothing until the next start of a text, or the next event.
- A reader without the text that chunk 0 continues receives the whole text so far instead, as the start of a text. This
  also applies to a reader whose cursor is an event: it may have missed the chunks before the event.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from aion_core.clock import Clock
from aion_core.engine.records import Cursor, Delta, DeltaBatch, Head, Log, Numbered, OpenText
from aion_core.engine.stream.broadcast import Resumed, ResumedText, StreamItem
from aion_core.engine.stream.event_ids import cursor_of, event_id
from aion_core.engine.stream.shared_reads import SharedReads
from aion_core.engine.task import projection, states
from aion_core.errors import StoreUnavailable, TaskNotFound
from aion_core.protocol.types import TaskState
from aion_core.table.keys import TaskKey

FAST_SECONDS, SLOW_SECONDS = 0.1, 1.0
"""Pause in seconds between two reads of a log: shortest with new events, longest without."""

IDLE_SECONDS = 300.0
"""The stream of a task without new events ends after this time. The client may resume it."""

MOST_FAILURES = 6
"""Number of consecutive failed reads (a quarter of a minute) that make the stream fail."""

LEAVE_SECONDS = 6.0
"""Seconds before the end of its process at which a stream ends, so that it does not end abruptly."""


async def tail(
    reads: SharedReads,
    key: TaskKey,
    clock: Clock,
    *,
    after: Cursor = Cursor(),  # noqa: B008  # immutable
    until: datetime | None = None,
    leave: asyncio.Future[None] | None = None,
    ends: Collection[TaskState] = states.TERMINAL_OR_INTERRUPTED,
) -> AsyncGenerator[list[StreamItem], None]:
    """Yield a task's events and chunks after the cursor until its state is in `ends`, or IDLE_SECONDS bring nothing new.

    `until` is the time at which this process must end. The stream ends shortly before that time, or when `leave` is
    done; the client may resume the stream. Raises TaskNotFound.
    """
    pause, idle, failures = FAST_SECONDS, 0.0, 0
    since, shown, start = Cursor(after.generation), after, after
    while True:
        try:
            read = await reads.after(key, after.generation, since)
        except StoreUnavailable:
            failures += 1
            if failures == MOST_FAILURES:
                raise
            await clock.sleep(SLOW_SECONDS * failures)
            continue
        if read.log is None:
            raise TaskNotFound(key.task_id)
        failures, log = 0, read.log
        items, after, shown = merge(log.events, read.deltas, after, shown)
        since = next_read(read.deltas, after, since)
        if start.n and (speaker := speaker_at(read.deltas, start)):
            items.insert(0, StreamItem(event_id(start), ResumedText(speaker)))
            start = Cursor()
        if items:
            yield items
        if log.head.state in ends:
            return
        idle = 0.0 if items else idle + pause
        if idle >= IDLE_SECONDS:
            return
        if leave is not None and leave.done():
            return
        if until is not None and (until - clock.now()).total_seconds() < LEAVE_SECONDS:
            return
        pause = FAST_SECONDS if items else min(pause * 1.5, SLOW_SECONDS)
        await clock.sleep(pause)


def resume_cursor(last_event_id: str, head: Head) -> Cursor | None:
    """Return the cursor after the event or chunk with this SSE id; None if the id is not of this task."""
    cursor = cursor_of(last_event_id)
    return cursor if cursor is not None and 0 < cursor.generation <= head.generation else None


def beginning(log: Log, last_event_id: str, generation: int) -> tuple[Cursor, list[StreamItem]]:
    """Return the start of a stream from a whole log: its cursor, and its first batch, with the task as of that cursor.

    The cursor is `last_event_id`, or else the event with the number `generation`. The task is omitted after a
    `last_event_id`, and before the first event.
    """
    if (after := resume_cursor(last_event_id, log.head)) is not None:
        return after, [StreamItem("", Resumed(log.head.key.task_id, log.head.context.context_id))]
    if not generation:
        return Cursor(), []
    task = projection.fold(each for each in log.events if each.generation <= generation)
    return Cursor(generation), [StreamItem(event_id(Cursor(generation)), task)]


def merge(
    events: Sequence[Numbered], batches: Iterable[DeltaBatch], after: Cursor, shown: Cursor
) -> tuple[list[StreamItem], Cursor, Cursor]:
    """Merge events and chunk batches into the ordered stream items for a reader at the cursor `after`. Pure.

    `shown` is the position of the reader's last chunk. Return the items, and both positions after them. Chunks after an
    unread event are left for the next merge: the reader needs that event first. The module's docstring describes the
    protocol.
    """
    following: dict[int, list[DeltaBatch]] = {}
    for batch in batches:
        of_this_event = following.setdefault(batch.generation, [])
        if of_this_event and of_this_event[0].fence < batch.fence:
            of_this_event.clear()
        if not of_this_event or of_this_event[0].fence == batch.fence:
            of_this_event.append(batch)

    items: list[StreamItem] = []
    after, shown = _add_chunks(following.get(after.generation, ()), after, shown, items)
    for entry in events:
        items.append(StreamItem(event_id(Cursor(entry.generation)), entry.event))
        after, shown = _add_chunks(following.get(entry.generation, ()), Cursor(entry.generation), shown, items)
    return items, after, shown


def speaker_at(batches: Iterable[DeltaBatch], cursor: Cursor) -> Mapping[str, Any] | None:
    """Return the speaker of the text that is open at a cursor; None without one, or if its chunks are not stored. Pure."""
    speaker: Mapping[str, Any] | None = None
    own = [batch for batch in batches if (batch.generation, batch.fence) == (cursor.generation, cursor.fence)]
    for batch in sorted(own, key=lambda batch: batch.first):
        if batch.first == 0 and batch.continues is not None:
            speaker = batch.continues.speaker
        for chunk in batch.chunks[: max(0, cursor.n - batch.first)]:
            speaker = None if chunk.last else speaker if chunk.append else chunk.speaker
    return speaker


def next_read(batches: Iterable[DeltaBatch], after: Cursor, since: Cursor) -> Cursor:
    """Return the cursor to read chunk batches from next. `since` is the cursor of the last read. Pure."""
    reached = after == since or any(
        (batch.generation, batch.fence) == (after.generation, after.fence)
        and batch.first < after.n <= batch.first + len(batch.chunks)
        for batch in batches
    )
    return after if reached else Cursor(after.generation)


def _add_chunks(
    batches: Iterable[DeltaBatch], after: Cursor, shown: Cursor, items: list[StreamItem]
) -> tuple[Cursor, Cursor]:
    for batch in sorted(batches, key=lambda batch: batch.first):
        if batch.fence > after.fence:
            after = Cursor(after.generation, batch.fence)
        elif batch.fence < after.fence:
            continue
        for number, chunk in enumerate(batch.chunks, start=batch.first):
            received = _continued(chunk, batch.continues, shown) if number == 0 and chunk.append else chunk
            if received is None:
                continue
            if number == after.n or (number > after.n and not chunk.append):
                after = shown = Cursor(batch.generation, batch.fence, number + 1)
                items.append(StreamItem(event_id(after), received))
    return after, shown


def _continued(chunk: Delta, before: OpenText | None, shown: Cursor) -> Delta | None:
    """Return the chunk if the reader has the text before it; otherwise a chunk with the whole text so far.

    Return None if that text is not stored.
    """
    if before is not None and before.until == shown:
        return chunk
    if before is None or before.text is None:
        return None
    return replace(chunk, text=before.text + chunk.text, append=False, speaker=before.speaker)
