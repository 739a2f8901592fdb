"""Long-term memory over the table. Each owner has a partition."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta

from aion_core.ports import Clock, MemoryItem, MemoryScope, MemoryWrite, Namespace
from aion_core.ports.schema import TTL_ATTRIBUTE
from aion_core.ports.table import LAST, SORT, Change, Delete, Equals, Item, Table, Update, WriteRefused
from aion_core.stores import keys
from aion_core.stores.items import Reads, Ttl
from aion_core.stores.retries import Fence, FencedWrites
from aion_core.tasks.contexts import VERSION

FIRST_PAGE, LARGEST_PAGE = 32, 256
"""Page sizes of a search. LangGraph's default limit is ten results, but a filter may need to read all items."""

NAMES_AT_ONCE = 128
"""Number of a namespace's items that `namespaces` reads before it skips the namespace's other items."""

WRITES_AT_ONCE = 10
"""Number of changes in one transaction: the items may have 400 KB each, and 4 MB together."""

DELETES_AT_ONCE = 16


class TableLongTermMemory:
    """`ports.LongTermMemory` in one table."""

    def __init__(self, table: Table, clock: Clock, *, fence: Fence | None = None) -> None:
        """With a `fence`, `write` raises LeaseLost if another lease holder has the context."""
        self._table, self._clock = table, clock
        self._reads, self._ttl, self._writes = Reads(table, clock), Ttl(clock), FencedWrites(table, fence)

    async def get(self, scope: MemoryScope, namespace: Namespace, key: str) -> MemoryItem | None:
        """See `ports.LongTermMemory.get`."""
        item = await self._reads.get(keys.memory_key(*scope, namespace, key))
        return _item_of(item) if item is not None else None

    async def search(self, scope: MemoryScope, prefix: Namespace) -> AsyncGenerator[MemoryItem, None]:
        """See `ports.LongTermMemory.search`."""
        first = keys.memory_prefix(scope.agent, prefix)
        pages = self._reads.pages(
            keys.memory_partition(scope.owner), first, first + LAST, limit=FIRST_PAGE, largest=LARGEST_PAGE
        )
        async with aclosing(pages):
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    yield _item_of(item)

    async def namespaces(self, scope: MemoryScope, prefix: Namespace) -> Sequence[Namespace]:
        """See `ports.LongTermMemory.namespaces`."""
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
        """See `ports.LongTermMemory.write`."""
        # Use only the last change of each item, because a transaction may write an item only once.
        writes = list({(change.namespace, change.key): self._write(scope, change) for change in changes}.values())
        for start in range(0, len(writes), WRITES_AT_ONCE):
            await self._writes.commit(*writes[start : start + WRITES_AT_ONCE])

    async def touch(self, scope: MemoryScope, *items: MemoryItem) -> None:
        """See `ports.LongTermMemory.touch`."""
        await asyncio.gather(*(self._touch(scope, item, item.ttl) for item in items if item.ttl is not None))

    async def forget(self, owner: str, *, dry_run: bool = False) -> int:
        """See `ports.LongTermMemory.forget`."""
        count = 0
        pages = self._reads.pages(keys.memory_partition(owner), "\0", LAST, limit=LARGEST_PAGE, keys_only=True)
        async with aclosing(pages):
            async for page in pages:
                count += len(page)
                for start in range(0, 0 if dry_run else len(page), DELETES_AT_ONCE):
                    part = page[start : start + DELETES_AT_ONCE]
                    await asyncio.gather(*(self._table.write(Delete(keys.key_of(item))) for item in part))
        return count

    def _write(self, scope: MemoryScope, change: MemoryWrite) -> Update | Delete:
        key, now = keys.memory_key(*scope, change.namespace, change.key), self._clock.now().isoformat()
        if change.value is None:
            return Delete(key)
        values = {"v": VERSION, "body": change.value, "updated_at": now}
        if change.ttl is None:
            return Update(key, Change(values, {"created_at": now}, remove=("ttl_ms", TTL_ATTRIBUTE)))
        values |= {"ttl_ms": int(change.ttl / timedelta(milliseconds=1)), TTL_ATTRIBUTE: self._ttl.after(change.ttl)}
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
        value=item["body"],
        created_at=datetime.fromisoformat(item["created_at"]),
        updated_at=datetime.fromisoformat(item["updated_at"]),
        ttl=timedelta(milliseconds=item["ttl_ms"]) if "ttl_ms" in item else None,
    )
