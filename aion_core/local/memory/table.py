"""`Table` in this process's memory, with DynamoDB's documented refusals and token expiry."""

import threading
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from aion_core.clock import Clock
from aion_core.errors import StoreError
from aion_core.table.conditions import Condition
from aion_core.table.item import PARTITION, SORT, Index, Item, Key
from aion_core.table.port import Page
from aion_core.table.refusals import FINE, canceled
from aion_core.table.schema import INDEXES, TTL_ATTRIBUTE
from aion_core.table.semantics.conditions import holds
from aion_core.table.semantics.pages import check_filter, check_query, first_page, index_entry
from aion_core.table.semantics.tokens import RecentTokens
from aion_core.table.semantics.values import copy_stored
from aion_core.table.semantics.writes import (
    check_key,
    check_transaction,
    check_transaction_size,
    check_write,
    outcome,
)
from aion_core.table.writes import Delete, SingleWrite, Update, Write


class MemoryTable:
    """`Table` in this process's memory."""

    def __init__(self, clock: Clock) -> None:
        self._lock = threading.RLock()
        self._items: dict[Key, Item] = {}
        self._sorts: dict[str, list[str]] = defaultdict(list)
        self._positions: dict[tuple[str, str], list[tuple[Any, Key]]] = defaultdict(list)
        """Sorted positions of entries (sort key and item key) by index and partition."""
        self._tokens = RecentTokens(clock)

    async def get(self, key: Key) -> Item | None:
        """See `Table.get`."""
        return self.get_blocking(key)

    def get_blocking(self, key: Key) -> Item | None:
        """See `Table.get_blocking`."""
        check_key(key)
        with self._lock:
            item = self._items.get(key)
            return None if item is None else self._shown(item)

    async def query(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        after: Any = None,
        keys_only: bool = False,
    ) -> Page:
        """See `Table.query`."""
        check_query(partition, limit)
        with self._lock:
            sorts = self._sorts.get(partition, [])
            keys = [Key(partition, sort) for sort in sorts[bisect_left(sorts, first) : bisect_right(sorts, last)]]
            found, following = self._page(keys, self._items.__getitem__, after, limit, newest_first)
            items = [
                self._shown(self._items[key], (PARTITION, SORT, TTL_ATTRIBUTE) if keys_only else ()) for key in found
            ]
            return Page(items, len(items), following)

    async def query_index(
        self,
        index: Index,
        partition: str,
        first: str | int,
        last: str | int,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        after: Any = None,
        only_if: Condition | None = None,
        count_only: bool = False,
    ) -> Page:
        """See `Table.query_index`."""
        check_query(partition, limit)
        check_filter(index, only_if)
        if index not in INDEXES:
            raise StoreError(f"ValidationException: the table has no index {index.name}")
        with self._lock:
            entries = self._entries(index, partition, first, last)
            found, following = self._page(sorted(entries), entries.__getitem__, after, limit, newest_first)
            items = [self._shown(entries[position]) for position in found if holds(only_if, entries[position])]
            last_read = entries[following][index.sort] if following is not None else None
            return Page(() if count_only else items, len(items), following, last_read)

    async def scan(
        self,
        *,
        segment: int = 0,
        segments: int = 1,
        after: Any = None,
        attributes: Sequence[str] = (),
        only_if: Condition | None = None,
        consistent: bool = False,
    ) -> Page:
        """See `Table.scan`."""
        if not 0 <= segment < segments:
            raise StoreError(f"ValidationException: there is no segment {segment} of {segments}")
        with self._lock:
            keys = sorted(key for key in self._items if crc32(key.partition.encode()) % segments == segment)
            found, following = self._page(keys, self._items.__getitem__, after)
            items = [self._shown(self._items[key], attributes) for key in found if holds(only_if, self._items[key])]
            return Page(items, len(items), following)

    def _page(
        self,
        positions: Sequence[Any],
        item: Callable[[Any], Item],
        after: Any,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> tuple[list[Any], Any]:
        """Return the positions of one page of results, and the last position if another page follows."""
        if after is not None:
            before, behind = bisect_left(positions, after), bisect_right(positions, after)
            positions = positions[:before] if newest_first else positions[behind:]
        ordered = positions[::-1] if newest_first else positions
        page, more = first_page(map(item, ordered), limit)
        return list(ordered[: len(page)]), ordered[len(page) - 1] if more else None

    def _shown(self, item: Item, attributes: Sequence[str] = ()) -> Item:
        """Return a copy of the item for a reader, with all attributes or only with these."""
        shown = copy_stored(item)
        return {name: shown[name] for name in attributes if name in shown} if attributes else shown

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        """See `Table.write`."""
        item = self._write(write)
        return item if returning else None

    def write_blocking(self, write: SingleWrite) -> None:
        """See `Table.write_blocking`."""
        self._write(write)

    def _write(self, write: SingleWrite) -> Item | None:
        check_write(write)
        with self._lock:
            before = self._items.get(write.key)
            [after] = self._decided((write,), (before,))
            self._store(write.key, after)
            returned = after if isinstance(write, Update) else before if isinstance(write, Delete) else None
            return None if returned is None else self._shown(returned)

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """See `Table.transact`."""
        with self._lock:
            decided = self._accepted(writes, token)
            if decided is not None:
                for write, after in zip(writes, decided, strict=True):
                    self._store(write.key, after)
                self._tokens.add(token, writes)

    def _accepted(self, writes: Sequence[Write], token: str) -> list[Item | None] | None:
        """Return the items after a transaction; None if it was made before. Raises the error of a refused one."""
        check_transaction(writes, token)
        if self._tokens.have(token, writes):
            return None
        befores = [self._items.get(write.key) for write in writes]
        decided = self._decided(writes, befores)
        check_transaction_size([item for item in (*befores, *decided) if item])
        return decided

    def _decided(self, writes: Sequence[Write], befores: Sequence[Item | None]) -> list[Item | None]:
        """Calculate the items after the writes, but do not store them. Raises the error of a refused write."""
        outcomes = [outcome(write, before, INDEXES) for write, before in zip(writes, befores, strict=True)]
        reasons = self._reasons(writes, [each.reason for each in outcomes])
        if {*reasons} != {FINE}:
            raise canceled(reasons) from next((each.error for each in outcomes if each.error), None)
        return [each.after for each in outcomes]

    def _reasons(self, writes: Sequence[Write], reasons: Sequence[str]) -> Sequence[str]:
        """Return for each write FINE, or the reason to refuse it. A hook for simulated conflicts."""
        return reasons

    def _store(self, key: Key, after: Item | None) -> None:
        before = self._items.pop(key, None)
        if after is not None:
            self._items[key] = after
        sorts = self._sorts[key.partition]
        if before is None and after is not None:
            insort(sorts, key.sort)
        elif before is not None and after is None:
            del sorts[bisect_left(sorts, key.sort)]
        for index in INDEXES:
            if (before and index.partition in before) or (after and index.partition in after):
                self._store_entry(index, key, before, after)

    def _store_entry(self, index: Index, key: Key, before: Item | None, after: Item | None) -> None:
        old, new = _position(index, key, before), _position(index, key, after)
        if old != new:
            if old is not None:
                positions = self._positions[index.name, old[0]]
                del positions[bisect_left(positions, old[1])]
            if new is not None:
                insort(self._positions[index.name, new[0]], new[1])

    def _entries(self, index: Index, partition: str, first: Any, last: Any) -> dict[tuple[Any, Key], Item]:
        """Return the visible entries of an index partition, keyed by position (sort key and item key)."""
        positions = self._positions.get((index.name, partition), [])
        begin = bisect_left(positions, first, key=lambda position: position[0])
        end = bisect_right(positions, last, key=lambda position: position[0])
        return {position: index_entry(index, self._items[position[1]]) or {} for position in positions[begin:end]}


def _position(index: Index, key: Key, item: Item | None) -> tuple[str, tuple[Any, Key]] | None:
    """Return the partition and position of the item's entry in the index; None if it has no entry."""
    if item is None or index.partition not in item or index.sort not in item:
        return None
    return item[index.partition], (item[index.sort], key)
