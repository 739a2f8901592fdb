"""Reads a task's log as it grows, from any instance: events in order without a gap, and the chunks between them.

The protocol between the writer of the chunks (`deltas`) and their readers, by which a stream is whole or starts anew:

- The chunks that follow event g under fence f are numbered 0, 1, 2, ... Chunk 0 starts a text (`append: false`), and so
  does the first chunk of each model call; every other chunk continues its predecessor. No text continues beyond an event.
- The writer stores batches in the order of their numbers, and changes none. A batch that was refused is written again
  before any later one. So the batches under (g, f) hold the chunks from 0 on, without a gap, as far as they were stored.
- A higher fence after the same event has another holder, which starts from chunk 0: the lower one's chunks are history.
- A reader's cursor (g, f, n) says that it has received the chunks before n. It may have received them from the turn's
  own process, before they were stored: until the batch of chunk n - 1 has been read, each read begins at event g.
- A reader is given chunk n next, or a chunk that starts a text. Where chunks are missing (they expire, or could not be
  stored) it is given nothing until the next start of a text, or the next event.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import datetime

from aion_core.errors import StoreUnavailable, TaskNotFound
from aion_core.ports import Clock, Cursor, DeltaBatch, Head, Numbered, TaskKey
from aion_core.tasks import lifecycle
from aion_core.tasks.broadcast import StreamItem, cursor_of
from aion_core.tasks.shared_reads import SharedReads

FAST_SECONDS, SLOW_SECONDS = 0.1, 1.0
"""How often the log is read while something comes, and when nothing does."""
IDLE_SECONDS = 300.0
"""After so long without a word a reader is let go; it may come back to where it stood."""

MOST_FAILURES = 6
"""How often in a row the log may be out of reach before a reader is told so: a quarter of a minute."""

LEAVE_SECONDS = 6.0
"""How long before its process ends a reader is let go: its stream is to end cleanly, not to be cut."""


async def tail(
    reads: SharedReads,
    key: TaskKey,
    clock: Clock,
    *,
    after: Cursor = Cursor(),  # noqa: B008  # frozen
    until: datetime | None = None,
    leave: asyncio.Event | None = None,
) -> AsyncGenerator[list[StreamItem], None]:
    """Yield what comes after the cursor, as it is recorded, until the task rests, or says nothing for long.

    `until`: when the process ends that reads; a little before, the reader is let go, and may come back. So is it once
    `leave` is set. Raises TaskNotFound where there is no such task.
    """
    pause, idle, failures = FAST_SECONDS, 0.0, 0
    since = Cursor(after.generation)
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
        heard, after = merge(log.events, read.deltas, after)
        since = next_read(read.deltas, after, since)
        if heard:
            yield heard
        if log.head.state in lifecycle.RESTING:
            return
        idle = 0.0 if heard else idle + pause
        if idle >= IDLE_SECONDS:
            return
        if leave is not None and leave.is_set():
            return
        if until is not None and (until - clock.now()).total_seconds() < LEAVE_SECONDS:
            return
        pause = FAST_SECONDS if heard else min(pause * 1.5, SLOW_SECONDS)
        await clock.sleep(pause)


def place_of(last_event_id: str, head: Head) -> Cursor | None:
    """Return where a reader of the task stands whose last SSE id this was; None where it is none of this task's."""
    cursor = cursor_of(last_event_id)
    return cursor if cursor is not None and 0 < cursor.generation <= head.generation else None


def merge(events: Sequence[Numbered], batches: Iterable[DeltaBatch], after: Cursor) -> tuple[list[StreamItem], Cursor]:
    """Return what a reader at the cursor hears of the events and batches, in order, and where it stands then. Pure.

    Chunks that follow an event not among these are left for the next time: that event must be heard first. See the
    protocol above.
    """
    following: dict[int, list[DeltaBatch]] = {}
    for batch in batches:
        of_this_event = following.setdefault(batch.generation, [])
        if of_this_event and of_this_event[0].fence < batch.fence:
            of_this_event.clear()
        if not of_this_event or of_this_event[0].fence == batch.fence:
            of_this_event.append(batch)

    heard: list[StreamItem] = []
    after = _hear(following.get(after.generation, ()), after, heard)
    for entry in events:
        heard.append(StreamItem(str(entry.generation), entry.event))
        after = _hear(following.get(entry.generation, ()), Cursor(entry.generation), heard)
    return heard, after


def next_read(batches: Iterable[DeltaBatch], after: Cursor, since: Cursor) -> Cursor:
    """Return where the next read of batches begins for a reader at `after`, whose last read began at `since`. Pure."""
    reached = after == since or any(
        (batch.generation, batch.fence) == (after.generation, after.fence)
        and batch.first < after.n <= batch.first + len(batch.chunks)
        for batch in batches
    )
    return after if reached else Cursor(after.generation)


def _hear(batches: Iterable[DeltaBatch], after: Cursor, heard: list[StreamItem]) -> Cursor:
    for batch in sorted(batches, key=lambda batch: batch.first):
        if batch.fence > after.fence:
            after = Cursor(after.generation, batch.fence)
        elif batch.fence < after.fence:
            continue
        for number, chunk in enumerate(batch.chunks, start=batch.first):
            if number == after.n or (number > after.n and not chunk.append):
                heard.append(StreamItem(f"{batch.generation}.{batch.fence}.{number}", chunk))
                after = Cursor(after.generation, batch.fence, number + 1)
    return after
