"""Items of a LangGraph thread: its checkpoints, newest first."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from aion_core.table import keys
from aion_core.table.item import LAST, SORT, Item
from aion_core.table.reads import Reads

FIRST_PAGE, LARGEST_PAGE = 4, 256
"""Page sizes of a query. The newest checkpoint needs few items, a thread's history many."""


class StoredCheckpoint(Struct, frozen=True):
    """Item of a checkpoint, with the items of its LangGraph tasks' writes."""

    place: keys.CheckpointSort
    item: Item
    writes: tuple[Item, ...]


class ThreadItems:
    """Queries of the items of LangGraph threads: checkpoints, and the writes of LangGraph tasks."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def newest_first(
        self, thread_id: str, first: str, last: str | None = None
    ) -> AsyncGenerator[StoredCheckpoint, None]:
        """Yield the checkpoints with sort keys from `first` to `last`, newest first, each with its tasks' writes.

        Without `last`, yield the checkpoints with the prefix `first`. Writes sort after their checkpoint, so this query
        returns the writes first. Writes without a checkpoint are left out.
        """
        written: list[tuple[keys.CheckpointSort, Item]] = []
        async with aclosing(self.pages(thread_id, first, last, newest_first=True)) as pages:
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    place = keys.checkpoint_of(item[SORT])
                    if place.task_id:
                        written.append((place, item))
                    else:
                        own = tuple(write for of, write in written if of[:2] == place[:2])
                        written.clear()
                        yield StoredCheckpoint(place, item, own)

    def pages(
        self, thread_id: str, first: str, last: str | None = None, **options: bool
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the items with sort keys from `first` to `last`, or with the prefix `first`, one list per request."""
        partition, last = keys.thread_partition(thread_id), last or first + LAST
        return self._reads.pages(partition, first, last, limit=FIRST_PAGE, largest=LARGEST_PAGE, **options)


async def by_age(found: AsyncGenerator[StoredCheckpoint, None]) -> AsyncGenerator[StoredCheckpoint, None]:
    """Yield the checkpoints of all namespaces sorted by age, newest first."""
    every = [stored async for stored in found]
    for stored in sorted(every, key=lambda stored: stored.place.checkpoint_id, reverse=True):
        yield stored
