"""Long-term memory on DynamoDB: an item of the table for each item, a partition for each owner."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

from aion_core.aws import items, keys, writes
from aion_core.aws.client import Calls, Refused
from aion_core.aws.fenced_writes import FencedWrites
from aion_core.aws.items import Item
from aion_core.aws.table import Table
from aion_core.aws.terms import Retention
from aion_core.aws.writes import Write
from aion_core.checkpointing.turn import Fence
from aion_core.ports import Clock, MemoryItem, MemoryScope, MemoryWrite, Namespace
from aion_core.ports.schema import ENDS

FIRST_PAGE, LARGEST_PAGE = 32, 256
"""Page size of a search: LangGraph asks for ten by default, a filter may look through all."""

NAMES_AT_ONCE = 128
"""Items that a listing of namespaces reads before it skips the rest of the last one's."""

WRITES_AT_ONCE = 10
"""Changes in one transaction: it may touch 4 MB, and an item may have 400 KB."""

DELETES_AT_ONCE = 16

ITEM_IS_AS_READ = "updated_at = :read"


class DynamoDBLongTermMemory:
    """`ports.LongTermMemory` in one table."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, table: str, fence: Fence | None = None) -> None:
        """With a fence, `write` raises LeaseLost once another holder has the context; without, nobody is kept out."""
        self._dynamodb, self._clock, self._table = dynamodb, clock, table
        self._reads = Table(dynamodb, clock, name=table)
        self._writes = FencedWrites(dynamodb, table=table, fence=fence)
        self._terms = Retention(clock, timedelta())

    async def get(self, scope: MemoryScope, namespace: Namespace, key: str) -> MemoryItem | None:
        """See `ports.LongTermMemory.get`."""
        item = await self._reads.get(keys.memory_key(*scope, namespace, key))
        return _item_of(item) if item is not None else None

    async def search(self, scope: MemoryScope, prefix: Namespace) -> AsyncGenerator[MemoryItem, None]:
        """See `ports.LongTermMemory.search`."""
        first = keys.memory_prefix(scope.agent, prefix)
        pages = self._reads.pages(
            keys.memory_partition(scope.owner), first, first + keys.LAST, limit=FIRST_PAGE, largest=LARGEST_PAGE
        )
        async with aclosing(pages):
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    yield _item_of(item)

    async def namespaces(self, scope: MemoryScope, prefix: Namespace) -> Sequence[Namespace]:
        """See `ports.LongTermMemory.namespaces`."""
        found: set[Namespace] = set()
        first = keys.memory_prefix(scope.agent, prefix)
        last = first + keys.LAST
        while page := await self._names(keys.memory_partition(scope.owner), first, last):
            found |= {keys.memory_of(item["sk"]["S"]).namespace for item in page if self._reads.lives(item)}
            sort = page[-1]["sk"]["S"]
            namespace = keys.memory_of(sort).namespace
            # Past all of a namespace that is found; of one whose item has expired, another may live.
            first = keys.memory_sort(scope.agent, namespace, keys.LAST) if namespace in found else f"{sort}\0"
        return list(found)

    async def write(self, scope: MemoryScope, *changes: MemoryWrite) -> None:
        """See `ports.LongTermMemory.write`."""
        # A transaction may name an item once.
        made = list({(change.namespace, change.key): self._write(scope, change) for change in changes}.values())
        for start in range(0, len(made), WRITES_AT_ONCE):
            await self._writes.commit(*made[start : start + WRITES_AT_ONCE])

    async def touch(self, scope: MemoryScope, *items: MemoryItem) -> None:
        """See `ports.LongTermMemory.touch`."""
        await asyncio.gather(*(self._touch(scope, item, item.ttl) for item in items if item.ttl is not None))

    async def forget(self, owner: str, *, dry_run: bool = False) -> int:
        """See `ports.LongTermMemory.forget`."""
        count = 0
        pages = self._reads.pages(
            keys.memory_partition(owner), "\0", keys.LAST, limit=LARGEST_PAGE, ProjectionExpression="pk, sk"
        )
        async with aclosing(pages):
            async for page in pages:
                count += len(page)
                for start in range(0, 0 if dry_run else len(page), DELETES_AT_ONCE):
                    some = page[start : start + DELETES_AT_ONCE]
                    await asyncio.gather(
                        *(self._dynamodb("delete_item", TableName=self._table, Key=key) for key in some)
                    )
        return count

    async def _names(self, partition: str, first: str, last: str) -> list[Item]:
        pages = self._reads.pages(partition, first, last, limit=NAMES_AT_ONCE, ProjectionExpression=f"pk, sk, {ENDS}")
        async with aclosing(pages):
            return await anext(pages)

    def _write(self, scope: MemoryScope, change: MemoryWrite) -> Write:
        key = keys.memory_key(*scope, change.namespace, change.key)
        if change.value is None:
            return writes.delete(self._table, key)
        lasting = "REMOVE ttl_ms, expires"
        values: dict[str, Any] = {}
        if change.ttl is not None:
            lasting = ", ttl_ms = :ttl, expires = :expires"
            values = {"ttl": int(change.ttl / timedelta(milliseconds=1)), "expires": self._terms.ends(change.ttl)}
        return writes.update(
            self._table,
            key,
            f"SET v = :v, body = :body, updated_at = :now, created_at = if_not_exists(created_at, :now) {lasting}",
            v=items.VERSION,
            body=change.value,
            now=self._clock.now().isoformat(),
            **values,
        )

    async def _touch(self, scope: MemoryScope, item: MemoryItem, ttl: timedelta) -> None:
        change = writes.update(
            self._table,
            keys.memory_key(*scope, item.namespace, item.key),
            "SET expires = :expires",
            only_if=ITEM_IS_AS_READ,
            expires=self._terms.ends(ttl),
            read=item.updated_at.isoformat(),
        )
        try:
            await self._dynamodb("update_item", **change["Update"])
        except Refused:
            # Changed or deleted since, or being written now: then its TTL begins anew with that.
            return


def _item_of(item: Item) -> MemoryItem:
    namespace, key = keys.memory_of(item["sk"]["S"])
    return MemoryItem(
        namespace,
        key,
        value=item["body"]["S"],
        created_at=datetime.fromisoformat(item["created_at"]["S"]),
        updated_at=datetime.fromisoformat(item["updated_at"]["S"]),
        ttl=timedelta(milliseconds=int(item["ttl_ms"]["N"])) if "ttl_ms" in item else None,
    )
