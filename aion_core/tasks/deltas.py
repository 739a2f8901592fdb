"""Writer of a turn's transient chunks: numbers them at once, so that they can be streamed, and stores them in batches."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator

from aion_core.errors import StoreError, StoreUnavailable
from aion_core.ports import Clock, Delta, DeltaBatch, TaskKey, TaskStore

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 0.25
"""How long a chunk may wait for its batch: a reader elsewhere lags by about this, 0.2 to 0.4 s in all."""
FLUSH_CHARACTERS = 16 * 1024
"""A batch is written sooner when it holds this much."""
PAGE_CHARACTERS, PAGE_CHUNKS = 8 * 1024, 2048
"""The largest batch, in text and in chunks: below 400 KB, however the text is escaped."""


class DeltaWriter:
    """Stores the chunks that follow one durable event: each once, in order, and in batches that never change.

    The first chunk is written at once, the others together: by time, by size, and by `flush` before the next durable
    event. A batch that the store refuses is written again, as it was, before any that follows it. What cannot be stored
    until the next durable event is dropped: that event has the whole text.
    """

    def __init__(self, store: TaskStore, key: TaskKey, clock: Clock, *, fence: int) -> None:
        self._store, self._key, self._clock, self._fence = store, key, clock, fence
        self._generation = 0
        self._number = 0
        self._pending: list[Delta] = []
        self._pending_characters = 0
        self._unwritten: deque[DeltaBatch] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._writing = asyncio.Lock()

    def follow(self, generation: int) -> None:
        """Number the chunks from 0 again: they now follow this event. Call `flush` before."""
        self._generation, self._number = generation, 0

    def add(self, delta: Delta) -> str:
        """Take a chunk and return its SSE id, `generation.fence.n`."""
        number = self._number
        self._number += 1
        self._pending.append(delta)
        self._pending_characters += len(delta.text)
        if self._timer is None:
            self._timer = asyncio.create_task(self._write_in_time())
        elif self._pending_characters >= FLUSH_CHARACTERS:
            self._full.set()
        return f"{self._generation}.{self._fence}.{number}"

    async def flush(self) -> None:
        """Write everything that is pending, now; drop whatever the store refuses."""
        self._stop_timer()
        await self._write()
        if self._unwritten:
            logger.warning("%d batches of stream deltas were dropped.", len(self._unwritten))
            self._unwritten.clear()

    async def rest(self) -> None:
        """Stop writing; return when no batch is under way. Pending chunks stay for `flush`."""
        self._stop_timer()
        async with self._writing:
            pass

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _write_in_time(self) -> None:
        while self._pending or self._unwritten:
            await self._write()
            self._full.clear()
            timer = asyncio.ensure_future(self._clock.sleep(FLUSH_SECONDS))
            full = asyncio.ensure_future(self._full.wait())
            try:
                await asyncio.wait({timer, full}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
                full.cancel()
        self._timer = None

    async def _write(self) -> None:
        # Shielded: `flush` cancels the timer, and a batch that is under way must neither be lost nor written twice.
        await asyncio.shield(asyncio.ensure_future(self._write_pending()))

    async def _write_pending(self) -> None:
        async with self._writing:
            first = self._number - len(self._pending)
            for page in _pages(self._pending):
                self._unwritten.append(DeltaBatch(self._generation, self._fence, first, page))
                first += len(page)
            self._pending, self._pending_characters = [], 0
            while self._unwritten:
                try:
                    await self._store.append_deltas(self._key, self._unwritten[0])
                except StoreUnavailable as error:
                    # It may have been written all the same: readers rely on its being the same batch then.
                    logger.warning("A batch of stream deltas could not be written; it is tried again: %s", error)
                    return
                except StoreError:
                    logger.exception("A batch of stream deltas cannot be written; it is dropped.")
                self._unwritten.popleft()


def _pages(chunks: list[Delta]) -> Iterator[tuple[Delta, ...]]:
    """Yield the chunks in batches that an item can hold, in order."""
    page: list[Delta] = []
    characters = 0
    for chunk in chunks:
        if page and (characters + len(chunk.text) > 2 * PAGE_CHARACTERS or len(page) == PAGE_CHUNKS):
            yield tuple(page)
            page, characters = [], 0
        page.append(chunk)
        characters += len(chunk.text)
    if page:
        yield tuple(page)
