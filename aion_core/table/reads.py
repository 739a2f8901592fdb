"""Reads of items that have not expired: DynamoDB deletes them late."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from aion_core.clock import Clock
from aion_core.table.item import LAST, Index, Item, Key
from aion_core.table.port import Page, Table
from aion_core.table.schema import TIMERS, TTL_ATTRIBUTE
from aion_core.table.times import milliseconds

_NEVER = 10**15
"""Time after all timers, in milliseconds since 1970."""


class _Paged(Protocol):
    @property
    def next(self) -> Any: ...


P = TypeVar("P", bound=_Paged)


async def all_pages(read: Callable[[Any], Awaitable[P]]) -> AsyncGenerator[P, None]:
    """Yield all pages. `read` gets the end position (`next`) of the page before, or None for the first page."""
    after = None
    while True:
        page = await read(after)
        yield page
        if page.next is None:
            return
        after = page.next


class Reads:
    """Reads of one table. Its clock decides if an item has expired."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    async def get(self, key: Key) -> Item | None:
        """Return the item with this key, or None if it does not exist or has expired."""
        item = await self._table.get(key)
        return item if item is not None and self.lives(item) else None

    async def query(self, partition: str, first: str, last: str) -> list[Item]:
        """Return all items of the partition between two sort keys, except expired items."""
        return [item async for page in self.pages(partition, first, last) for item in page if self.lives(item)]

    async def pages(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int | None = None,
        largest: int | None = None,
        newest_first: bool = False,
        keys_only: bool = False,
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the items between two sort keys, one list per request, including expired items.

        The first page has at most `limit` items. The limit of each later page is four times higher, up to `largest`.
        """
        after = None
        while True:
            page = await self._table.query(
                partition, first, last, newest_first=newest_first, limit=limit, after=after, keys_only=keys_only
            )
            yield list(page.items)
            if page.next is None:
                return
            after = page.next
            if limit is not None:
                limit = min(limit * 4, largest or limit)

    async def expired_timers(self, shard: str, limit: int) -> list[Item]:
        """Return the expired timers in a partition of the timer index, longest overdue first. The index may lag."""
        page = await self._table.query_index(TIMERS, shard, 0, milliseconds(self._clock.now()), limit=limit)
        return list(page.items)

    async def count_timers(self, shard: str) -> int:
        """Return the number of timers in a partition of the timer index, expired or not. The index may lag."""

        def read(after: Any) -> Awaitable[Page]:
            return self._table.query_index(TIMERS, shard, 0, _NEVER, after=after, count_only=True)

        return sum([page.count async for page in all_pages(read)])

    async def timers_between(self, shard: str, first: int, last: int) -> AsyncIterator[Item]:
        """Yield the timers in a partition of the timer index that expire between these times. The index may lag."""

        def read(after: Any) -> Awaitable[Page]:
            return self._table.query_index(TIMERS, shard, first, last, after=after)

        async for page in all_pages(read):
            for item in page.items:
                yield item

    async def all_of_index(self, index: Index, partition: str, *, newest_first: bool = False) -> AsyncIterator[Item]:
        """Yield every entry in a partition of the index. The index may lag behind the table."""

        def read(after: Any) -> Awaitable[Page]:
            return self._table.query_index(index, partition, "", LAST, newest_first=newest_first, after=after)

        async for page in all_pages(read):
            for item in page.items:
                yield item

    def lives(self, item: Item) -> bool:
        """Return True unless the item has expired. DynamoDB deletes expired items late, so each read must check."""
        return TTL_ATTRIBUTE not in item or int(item[TTL_ATTRIBUTE]) > self._clock.now().timestamp()
