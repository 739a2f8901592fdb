"""Writer of streamed text for readers in other processes, in batches."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping

from aion_core.clock import Clock
from aion_core.engine.records import Cursor, Delta, DeltaBatch, OpenText
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.stream.event_ids import event_id
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table.keys import TaskKey

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 0.25
"""Longest time until a chunk is stored. Readers in other processes lag by 0.2 to 0.4 s in all."""

FLUSH_CHARACTERS = 16 * 1024
"""Number of pending characters that are written without waiting for FLUSH_SECONDS."""

PAGE_CHARACTERS, PAGE_CHUNKS = 8 * 1024, 2048
"""Limits of a chunk in characters, and of a batch in chunks.

A batch has at most 2 * PAGE_CHARACTERS and an open text of OPEN_CHARACTERS: its item stays below 400 KB even with
escapes.
"""

OPEN_CHARACTERS = 2 * PAGE_CHARACTERS
"""Limit of an open text that is stored again after an event. Readers that miss a longer text wait for the next text."""


class DeltaWriter:
    """Writer of the text chunks that follow one durable event.

    It stores each chunk once and in order, and never changes a batch. The first chunk is written at once. Later chunks
    are written together: after FLUSH_SECONDS, at FLUSH_CHARACTERS, or by `flush` before the next durable event. After a
    failed write, the same batch is written again before later ones. Chunks still unwritten after `flush` are dropped.
    A text may continue after an event. The first batch after the event then repeats the text before the event. Readers
    need it if they have just connected or have missed a chunk.
    """

    def __init__(self, store: StoredTasks, key: TaskKey, clock: Clock, *, fence: int) -> None:
        self._store, self._key, self._clock, self._fence = store, key, clock, fence
        self._generation = 0
        self._number = 0
        self._open: list[str] = []
        """Chunks of the newest text."""
        self._speaker: Mapping[str, str] | None = None
        """Speaker of the newest text."""
        self._end = Cursor()
        """Position after the last chunk that precedes the event at which chunk numbers restart."""
        self._continues: OpenText | None = None
        """Text before chunk 0 after this event, if chunk 0 continues a text."""
        self._pending: list[Delta] = []
        self._pending_characters = 0
        self._unwritten: deque[DeltaBatch] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def follow(self, generation: int) -> None:
        """Number the next chunks from 0: they follow event number `generation`. Call `flush` before this method."""
        if self._number:
            self._end = Cursor(self._generation, self._fence, self._number)
        self._generation, self._number = generation, 0

    def add(self, delta: Delta) -> str:
        """Add a chunk to the next batch and return its SSE id."""
        number = self._number
        if not delta.append:
            self._open, self._speaker = [], delta.speaker
        if number == 0:
            self._continues = OpenText(self._end, self._text(), self._speaker) if delta.append else None
        self._open.append(delta.text)
        self._number += 1
        self._pending.append(delta)
        fits = self._pending_characters < FLUSH_CHARACTERS
        self._pending_characters += _size(delta)
        if fits and self._pending_characters >= FLUSH_CHARACTERS:
            self._stop_timer()
        if self._timer is None:
            self._timer = asyncio.create_task(self._write_in_time())
        return event_id(Cursor(self._generation, self._fence, number + 1))

    async def flush(self) -> None:
        """Write all pending chunks now. Drop the chunks that cannot be written."""
        if self._pending or self._unwritten or self._writing.locked():
            await self._write()
        self._stop_timer()
        if self._unwritten:
            logger.warning("%d batches of stream deltas were dropped.", len(self._unwritten))
            self._unwritten.clear()

    async def stop(self) -> None:
        """Wait for the batch in progress and stop the timer. A later `flush` still writes the pending chunks."""
        async with self._writing:
            pass
        self._stop_timer()

    def _text(self) -> str | None:
        return "".join(self._open) if sum(map(len, self._open)) <= OPEN_CHARACTERS else None

    def _stop_timer(self) -> None:
        # Do not cancel the timer during a write, because the next write would repeat the batch.
        if self._timer is not None and not self._writing.locked():
            self._timer.cancel()
            self._timer = None

    async def _write_in_time(self) -> None:
        while self._pending or self._unwritten:
            await self._write()
            if self._pending_characters < FLUSH_CHARACTERS:
                await self._clock.sleep(FLUSH_SECONDS)
        self._timer = None

    async def _write(self) -> None:
        async with self._writing:
            first = self._number - len(self._pending)
            for page in _pages(self._pending, self._pending_characters):
                continues = self._continues if first == 0 else None
                self._unwritten.append(DeltaBatch(self._generation, self._fence, first, page, continues))
                first += len(page)
            self._pending, self._pending_characters = [], 0
            while self._unwritten:
                try:
                    await self._store.append_deltas(self._key, self._unwritten[0])
                except StoreUnavailable as error:
                    # Write the same batch in the next attempt, because the failed write may have stored it.
                    logger.warning(
                        "A batch of stream deltas could not be written; the next write repeats it: %s", error
                    )
                    return
                except StoreError:
                    logger.exception("The store refused a batch of stream deltas; it is dropped.")
                self._unwritten.popleft()


def _pages(pending: list[Delta], size: int) -> Iterator[tuple[Delta, ...]]:
    """Yield the chunks in order, in batches that fit into an item of the table. `size` is their number of characters."""
    if pending and size <= 2 * PAGE_CHARACTERS and len(pending) <= PAGE_CHUNKS:
        yield tuple(pending)  # most writes fit into one batch
        return
    page: list[Delta] = []
    characters = 0
    for chunk in pending:
        more = _size(chunk)
        if page and (characters + more > 2 * PAGE_CHARACTERS or len(page) == PAGE_CHUNKS):
            yield tuple(page)
            page, characters = [], 0
        page.append(chunk)
        characters += more
    if page:
        yield tuple(page)


def _size(chunk: Delta) -> int:
    return len(chunk.text) + (sum(map(len, chunk.speaker.values())) if chunk.speaker else 0)
