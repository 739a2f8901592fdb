"""Long-term memory over the table. Each owner has a partition."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.engine.fenced_writes import Fence, FencedWrites
from aion_core.table import keys
from aion_core.table.conditions import Equals
from aion_core.table.item import LAST, SORT, Item
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.refusals import WriteRefused
from aion_core.table.schema import TTL_ATTRIBUTE
from aion_core.table.stamp import stamp
from aion_core.table.ttl import Ttl
from aion_core.table.writes import Change, Delete, Update

MAX_MEMORY_BYTES = 350_000
"""Longest value of a memory item, in bytes."""

MAX_MEMORY_NAME_BYTES = 800
"""Longest namespace and key of an item together in bytes, counting one byte more for each label."""

Namespace = tuple[str, ...]
"""A path of labels. A label is not empty and holds no "."."""


class MemoryScope(NamedTuple):
    """The owner and the agent of memory items. Other owners and agents cannot read or write them."""

    owner: str
    agent: str


class MemoryItem(Struct, frozen=True):
    """A stored item of long-term memory."""

    namespace: Namespace
    key: str
    value: str
    """The value as JSON text."""
    created_at: datetime
    updated_at: datetime
    ttl: timedelta | None = None
    """Lifetime after the item's last write or touch; None for no expiry."""


class MemoryWrite(Struct, frozen=True):
    """A write of a memory item: a put, or a delete if `value` is None."""

    namespace: Namespace
    key: str
    value: str | None
    ttl: timedelta | None = None


FIRST_PAGE, LARGEST_PAGE = 32, 256
"""Page sizes of a search. LangGraph's default limit is ten results, but a filter may need to read all items."""

NAMES_AT_ONCE = 128
"""Number of a namespace's items that `namespaces` reads before it skips the namespace's other items."""

WRITES_AT_ONCE = 10
"""Number of changes in one transaction: the items may have 400 KB each, and 4 MB together."""


class LongTermMemory:
    """The long-term memory of all owners.

    Reads are consistent and include every completed write, but no expired items. Every method may raise
    StoreUnavailable or StoreError.
    """

    def __init__(self, table: Table, clock: Clock, *, fence: Fence | None = None) -> None:
        """With a `fence`, `write` raises LeaseLost if another lease holder has the context."""
        self._table, self._clock = table, clock
        self._reads, self._ttl, self._writes = Reads(table, clock), Ttl(clock), FencedWrites(table, fence)

    async def get(self, scope: MemoryScope, namespace: Namespace, key: str) -> MemoryItem | None:
        """Return the memory item of this namespace and key; None if it does not exist."""
        item = await self._reads.get(keys.memory_key(*scope, namespace, key))
        return _item_of(item) if item is not None else None

    async def search(self, scope: MemoryScope, prefix: Namespace) -> AsyncGenerator[MemoryItem, None]:
        """Yield the items of all namespaces under the prefix, one namespace after the other, each sorted by key.

        The generator reads lazily: close it after the last item you need.
        """
        first = keys.memory_prefix(scope.agent, prefix)
        pages = self._reads.pages(
            keys.memory_partition(scope.owner), first, first + LAST, limit=FIRST_PAGE, largest=LARGEST_PAGE
        )
        async with aclosing(pages):
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    yield _item_of(item)

    async def namespaces(self, scope: MemoryScope, prefix: Namespace) -> Sequence[Namespace]:
        """Return all namespaces under the prefix that have items, in any order."""
        found: set[Namespace] = set()
        partition, first = keys.memory_partition(scope.owner), keys.memory_prefix(scope.agent, prefix)
        last = first + LAST
        while page := (await self._table.query(partition, first, last, limit=NAMES_AT_ONCE, keys_only=True)).items:
            found |= {keys.memory_of(item[SORT]).namespace for item in page if self._reads.lives(item)}
            sort = page[-1][SORT]
            namespace = keys.memory_of(sort).namespace
            # Skip the other items of the page's last namespace if this namespace is in the result. If it is not, all of
            # its items on the page have expired, but its next item may be valid.
            first = keys.memory_sort(scope.agent, namespace, LAST) if namespace in found else f"{sort}\0"
        return list(found)

    async def write(self, scope: MemoryScope, *changes: MemoryWrite) -> None:
        """Write the changes of memory items, atomically in groups of up to ten. The last change of an item wins.

        A repeated call renews only `updated_at` and the TTLs. If another holder has the turn's context, nothing is
        written and LeaseLost is raised. The fence covers one context only. So two conversations of an owner should
        write different items: the later write replaces the earlier one.
        """
        # Use only the last change of each item, because a transaction may write an item only once.
        writes = list({(change.namespace, change.key): self._write(scope, change) for change in changes}.values())
        for start in range(0, len(writes), WRITES_AT_ONCE):
            await self._writes.commit(*writes[start : start + WRITES_AT_ONCE])

    async def touch(self, scope: MemoryScope, *items: MemoryItem) -> None:
        """Restart the TTL of the items. Do not touch items changed or deleted since they were read."""
        await asyncio.gather(*(self._touch(scope, item, item.ttl) for item in items if item.ttl is not None))

    def _write(self, scope: MemoryScope, change: MemoryWrite) -> Update | Delete:
        key, now = keys.memory_key(*scope, change.namespace, change.key), self._clock.now().isoformat()
        if change.value is None:
            return Delete(key)
        expires = self._ttl.after(change.ttl) if change.ttl is not None else None
        values = {**stamp(scope.owner, expires), "value": change.value, "updated_at": now}
        if change.ttl is None:
            return Update(key, Change(values, {"created_at": now}, remove=("ttl_ms", TTL_ATTRIBUTE)))
        values["ttl_ms"] = int(change.ttl / timedelta(milliseconds=1))
        return Update(key, Change(values, {"created_at": now}))

    async def _touch(self, scope: MemoryScope, item: MemoryItem, ttl: timedelta) -> None:
        is_as_read = Equals("updated_at", item.updated_at.isoformat())
        change = Change({TTL_ATTRIBUTE: self._ttl.after(ttl)}, only_if=is_as_read)
        try:
            await self._table.write(Update(keys.memory_key(*scope, item.namespace, item.key), change))
        except WriteRefused:
            return  # renew nothing: another write has deleted the item, or has changed it and renewed its TTL


def _item_of(item: Item) -> MemoryItem:
    namespace, key = keys.memory_of(item[SORT])
    return MemoryItem(
        namespace,
        key,
        value=item["value"],
        created_at=datetime.fromisoformat(item["created_at"]),
        updated_at=datetime.fromisoformat(item["updated_at"]),
        ttl=timedelta(milliseconds=item["ttl_ms"]) if "ttl_ms" in item else None,
    )
