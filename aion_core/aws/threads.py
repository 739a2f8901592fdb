"""The items of LangGraph's threads: read consistently, written under the context's fence, gone when they expire."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from aion_core.aws import keys, writes
from aion_core.aws.client import Calls
from aion_core.aws.fenced_writes import FencedWrites
from aion_core.aws.items import Item
from aion_core.aws.table import Table
from aion_core.aws.terms import Retention
from aion_core.aws.writes import Write
from aion_core.checkpointing.turn import Fence
from aion_core.ports import Clock

FIRST_PAGE, LARGEST_PAGE = 4, 256
"""How many items a query reads: the newest checkpoint and its writes are few, a thread's history is many."""

DELETES_AT_ONCE = 50
"""How many items one transaction deletes: it may touch 4 MB."""


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint's item with the items of what its tasks wrote."""

    place: keys.CheckpointSort
    item: Item
    writes: tuple[Item, ...]


class Threads:
    """The threads of one table, for the holder of one fence; without a fence, nobody is kept from writing."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, table: str, fence: Fence | None, retention: timedelta) -> None:
        self._table = table
        self.commit = FencedWrites(dynamodb, table=table, fence=fence).commit
        self._retention = Retention(clock, retention)
        self._reads = Table(dynamodb, clock, name=table)

    def put(self, key: keys.Key, attributes: Item) -> Write:
        """Return the write of a whole item."""
        return writes.put(self._table, key, {**attributes, **self._retention.keeping()})

    def fill(self, key: keys.Key, attributes: Item, *, only_once: frozenset[str]) -> Write:
        """Return the change of an item, there or not, to these attributes; those of `only_once` stay as they are."""
        attributes = {**attributes, **self._retention.keeping()}
        changes = (
            f"{name} = if_not_exists({name}, :{name})" if name in only_once else f"{name} = :{name}"
            for name in attributes
        )
        return writes.update(self._table, key, f"SET {', '.join(changes)}", **attributes)

    async def delete(self, thread_id: str) -> None:
        """Delete the thread, oldest items first: cut short, it leaves the thread's present as it is."""
        pages = self._pages(thread_id, keys.namespace_sort(None), ProjectionExpression="pk, sk")
        found = [{"Delete": {"TableName": self._table, "Key": key}} async for page in pages for key in page]
        for start in range(0, len(found), DELETES_AT_ONCE):
            await self.commit(*found[start : start + DELETES_AT_ONCE])

    async def newest_first(
        self, thread_id: str, first: str, last: str | None = None
    ) -> AsyncGenerator[StoredCheckpoint, None]:
        """Yield the checkpoints whose sort key begins with `first`, up to `last`, each with what was written to it.

        A task's writes sort after their checkpoint, so here they come before it; without it, they are nobody's.
        """
        written: list[tuple[keys.CheckpointSort, Item]] = []
        async with aclosing(self._pages(thread_id, first, last, ScanIndexForward=False)) as pages:
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    place = keys.checkpoint_of(item["sk"]["S"])
                    if place.task_id:
                        written.append((place, item))
                    else:
                        own = tuple(write for of, write in written if of[:2] == place[:2])
                        written.clear()
                        yield StoredCheckpoint(place, item, own)

    def _pages(
        self, thread_id: str, first: str, last: str | None = None, **options: Any
    ) -> AsyncGenerator[list[Item], None]:
        return self._reads.pages(
            keys.thread_partition(thread_id),
            first,
            last or first + keys.LAST,
            limit=FIRST_PAGE,
            largest=LARGEST_PAGE,
            **options,
        )
