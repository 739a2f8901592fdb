"""In-memory table with DynamoDB's documented refusals, conflicts and token expiry.

`TableFaults` adds index lag, throttling, lost responses and partly visible transactions.
"""

import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table.conditions import Condition
from aion_core.table.item import PARTITION, SORT, Index, Item, Key
from aion_core.table.port import Page
from aion_core.table.refusals import CONFLICT, FINE, TokenReused, canceled
from aion_core.table.schema import INDEXES, TTL_ATTRIBUTE
from aion_core.table.semantics.conditions import holds
from aion_core.table.semantics.pages import check_filter, check_query, first_page, index_entry
from aion_core.table.semantics.values import copy_stored
from aion_core.table.semantics.writes import (
    TOKEN_LIFE,
    check_key,
    check_transaction,
    check_transaction_size,
    check_write,
    fingerprint,
    outcome,
)
from aion_core.table.writes import Delete, SingleWrite, Update, Write

MAX_TOKENS = 200
"""Number of recent transactions with stored idempotency tokens. A caller repeats a transaction soon or never."""


class TableCall(Struct, frozen=True):
    """A call to a table, described for `TableFaults`."""

    operation: str
    """Name of the called method, without `_blocking`."""
    keys: tuple[Key, ...] = ()
    """Keys of the items read or written by the call."""
    partition: str = ""
    """Partition read by a query."""
    index: str = ""
    """Name of the index read by a query."""


class TableFaults:
    """Simulated faults of a table. This base class simulates none.

    Subclasses choose the faults with their own randomness and clock. The table itself is deterministic and never waits.
    """

    index_lag = timedelta(0)
    """Time during which an index may show earlier versions of an entry."""
    page_items: int | None = None
    """Largest number of items in a page."""
    partway: Callable[[Sequence[Write]], Awaitable[None]] | None = None
    """Wait before the remaining writes of a transaction. The table calls this after each of its writes.

    Meanwhile queries see the earlier writes, `get` returns the old items, and other writes of these items conflict.
    None for transactions without a wait.
    """

    def before(self, call: TableCall) -> None:
        """Override this method to throttle calls: raise StoreUnavailable. The call has had no effect yet."""

    def after(self, call: TableCall) -> None:
        """Override this method to lose responses: raise StoreUnavailable. The call has already had its effect."""

    def reasons(self, writes: Sequence[Write]) -> Sequence[str]:
        """Return () to let the writes proceed, or a reason for each write: FINE to allow it, CONFLICT or THROTTLED."""
        return ()

    def visible(self, index: Index, versions: Sequence[Item | None]) -> Sequence[Item | None]:
        """Choose the versions of an index entry that a query sees. The last version is current; None means no entry.

        The table calls this for entries changed within `index_lag`. A query may see an old and a new version of one
        entry.
        """
        return versions[-1:]

    def read(self, item: Item) -> Item:
        """Return the item as a reader gets it. A test may override this method to return a changed item."""
        return item


class MemoryTable:
    """`Table` in this process's memory."""

    def __init__(self, clock: Clock, *, faults: TableFaults | None = None) -> None:
        self._clock, self.faults = clock, faults or TableFaults()
        self._lock = threading.RLock()
        self._items: dict[Key, Item] = {}
        self._sorts: dict[str, list[str]] = defaultdict(list)
        self._positions: dict[tuple[str, str], list[tuple[Any, Key]]] = defaultdict(list)
        """Sorted positions of entries (sort key and item key) by index and partition."""
        self._versions: dict[str, dict[Key, list[tuple[datetime, Item | None]]]] = defaultdict(dict)
        """Recent versions of index entries by index, with the times of their changes."""
        self._tokens: OrderedDict[str, tuple[list[Write], datetime]] = OrderedDict()
        """Writes and times of the recent transactions by their tokens, the oldest first."""
        self._tokens_in_flight: set[str] = set()
        self._in_flight: dict[Key, Item | None] = {}
        """Previous versions of the items in running transactions."""

    # ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, key: Key) -> Item | None:
        """See `Table.get`."""
        return self.get_blocking(key)

    def get_blocking(self, key: Key) -> Item | None:
        """See `Table.get_blocking`."""
        with self._call(TableCall("get", (key,))):
            check_key(key)
            item = self._in_flight[key] if key in self._in_flight else self._items.get(key)
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
        with self._call(TableCall("query", partition=partition)):
            check_query(partition, limit)
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
        with self._call(TableCall("query_index", partition=partition, index=index.name)):
            check_query(partition, limit)
            check_filter(index, only_if)
            if index not in INDEXES:
                raise StoreError(f"ValidationException: the table has no index {index.name}")
            entries = self._entries(index, partition, first, last)
            found, following = self._page(sorted(entries), entries.__getitem__, after, limit, newest_first)
            items = [self._shown(entries[position]) for position in found if holds(only_if, entries[position])]
            return Page(() if count_only else items, len(items), following)

    async def scan(
        self,
        *,
        segment: int = 0,
        segments: int = 1,
        after: Any = None,
        attributes: Sequence[str] = (),
        consistent: bool = False,
    ) -> Page:
        """See `Table.scan`."""
        with self._call(TableCall("scan")):
            if not 0 <= segment < segments:
                raise StoreError(f"ValidationException: there is no segment {segment} of {segments}")
            keys = sorted(key for key in self._items if crc32(key.partition.encode()) % segments == segment)
            found, following = self._page(keys, self._items.__getitem__, after)
            items = [self._shown(self._items[key], attributes) for key in found]
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
            positions = (
                positions[: bisect_left(positions, after)]
                if newest_first
                else positions[bisect_right(positions, after) :]
            )
        ordered = positions[::-1] if newest_first else positions
        limits = [each for each in (limit, self.faults.page_items) if each is not None]
        page, more = first_page(map(item, ordered), min(limits, default=None))
        return list(ordered[: len(page)]), ordered[len(page) - 1] if more else None

    def _shown(self, item: Item, attributes: Sequence[str] = ()) -> Item:
        """Return a copy of the item as a reader sees it, with all attributes or only with these."""
        shown = self.faults.read(copy_stored(item))
        return {name: shown[name] for name in attributes if name in shown} if attributes else shown

    # ── Writes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        """See `Table.write`."""
        item = self._write(write)
        return item if returning else None

    def write_blocking(self, write: SingleWrite) -> None:
        """See `Table.write_blocking`."""
        self._write(write)

    def _write(self, write: SingleWrite) -> Item | None:
        with self._call(TableCall("write", (write.key,))):
            check_write(write)
            before = self._items.get(write.key)
            [after] = self._decided((write,), (before,))
            self._store(write.key, after)
            returned = after if isinstance(write, Update) else before if isinstance(write, Delete) else None
            return None if returned is None else self._shown(returned)

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """See `Table.transact`."""
        call = TableCall("transact", tuple([write.key for write in writes]))
        self.faults.before(call)
        with self._lock:
            check_transaction(writes, token)
            known = self._known(token)
            if known is None:
                befores = [self._items.get(key) for key in call.keys]
                decided = self._decided(writes, befores)
                check_transaction_size([item for item in (*befores, *decided) if item])
                if self.faults.partway is None:
                    self._finish(call.keys, decided, token, writes)
                else:
                    self._in_flight |= zip(call.keys, befores, strict=True)
                    self._tokens_in_flight.add(token)
            elif fingerprint(known) != fingerprint(writes):
                raise TokenReused("IdempotentParameterMismatchException")
        if known is None and self.faults.partway is not None:
            # Complete the accepted writes even if the caller is cancelled.
            made = 0
            try:
                for made, (key, after) in enumerate(zip(call.keys, decided, strict=True), start=1):
                    with self._lock:
                        self._store(key, after)
                    if made < len(writes):
                        await self.faults.partway(writes[made:])
            finally:
                with self._lock:
                    self._finish(call.keys, decided[made:], token, writes)
                    for key in call.keys:
                        del self._in_flight[key]
                    self._tokens_in_flight.discard(token)
        self.faults.after(call)

    def _finish(self, keys: Sequence[Key], left: Sequence[Item | None], token: str, writes: Sequence[Write]) -> None:
        """Complete a transaction: store its token and the items not yet stored, `left`, whose keys are the last of `keys`."""
        for key, after in zip(keys[len(keys) - len(left) :], left, strict=True):
            self._store(key, after)
        if token:
            self._tokens.pop(token, None)
            self._tokens[token] = list(writes), self._clock.now()

    def _known(self, token: str) -> list[Write] | None:
        """Return the writes that were recently made with this token, or None for an unknown token."""
        if not token:
            return None
        if token in self._tokens_in_flight:
            raise StoreUnavailable("TransactionInProgressException")
        expired = self._clock.now() - TOKEN_LIFE
        while self._tokens:
            oldest = next(iter(self._tokens))
            if self._tokens[oldest][1] > expired and len(self._tokens) < MAX_TOKENS:
                break
            del self._tokens[oldest]
        return self._tokens[token][0] if token in self._tokens else None

    def _decided(self, writes: Sequence[Write], befores: Sequence[Item | None]) -> list[Item | None]:
        """Calculate the items after the writes, but do not store them. Raises the error of a refused write."""
        outcomes = [outcome(write, before, INDEXES) for write, before in zip(writes, befores, strict=True)]
        faults = self.faults.reasons(writes) or [FINE] * len(writes)
        reasons = [
            CONFLICT if write.key in self._in_flight else fault if fault != FINE else each.reason
            for write, fault, each in zip(writes, faults, outcomes, strict=True)
        ]
        if {*reasons} != {FINE}:
            raise canceled(reasons) from next((each.error for each in outcomes if each.error), None)
        return [each.after for each in outcomes]

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

    # ── Indexes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _store_entry(self, index: Index, key: Key, before: Item | None, after: Item | None) -> None:
        old, new = _position(index, key, before), _position(index, key, after)
        if old != new:
            if old is not None:
                positions = self._positions[index.name, old[0]]
                del positions[bisect_left(positions, old[1])]
            if new is not None:
                insort(self._positions[index.name, new[0]], new[1])
        if self.faults.index_lag and (entry := index_entry(index, after)) != (earlier := index_entry(index, before)):
            now = self._clock.now()
            versions = self._versions[index.name].setdefault(key, [(now, earlier)])
            versions.append((now, entry))

    def _entries(self, index: Index, partition: str, first: Any, last: Any) -> dict[tuple[Any, Key], Item]:
        """Return the visible entries of an index partition, keyed by position (sort key and item key)."""
        positions = self._positions.get((index.name, partition), [])
        begin = bisect_left(positions, first, key=lambda position: position[0])
        end = bisect_right(positions, last, key=lambda position: position[0])
        lagging = self._lagging(index)
        entries = {
            position: index_entry(index, self._items[position[1]]) or {}
            for position in positions[begin:end]
            if position[1] not in lagging
        }
        for key, versions in lagging.items():
            for entry in self.faults.visible(index, versions):
                if entry and entry[index.partition] == partition and first <= entry[index.sort] <= last:
                    entries[entry[index.sort], key] = entry
        return entries

    def _lagging(self, index: Index) -> Mapping[Key, Sequence[Item | None]]:
        """Return the versions of each index entry changed within the index lag, from the version before the change."""
        recent = self._versions[index.name]
        if not self.faults.index_lag:
            recent.clear()
            return {}
        since = self._clock.now() - self.faults.index_lag
        for key, versions in list(recent.items()):
            while len(versions) > 1 and versions[1][0] <= since:
                del versions[0]
            if len(versions) == 1:
                del recent[key]
        return {key: [entry for _, entry in versions] for key, versions in recent.items()}

    # ── For tests ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def items(self) -> list[Item]:
        """Return all items of the table without simulated faults."""
        with self._lock:
            return [copy_stored(self._items[key]) for key in sorted(self._items)]

    def expired(self, now: datetime) -> list[Key]:
        """Return the keys of the items that have expired at this time."""
        with self._lock:
            return sorted(
                key
                for key, item in self._items.items()
                if type(item.get(TTL_ATTRIBUTE)) is int
                and item[TTL_ATTRIBUTE] < now.timestamp()
                and key not in self._in_flight
            )

    def delete_expired(self, now: datetime, keys: Iterable[Key] | None = None) -> list[Key]:
        """Delete the expired items, or only those in `keys`. Return their keys. DynamoDB does this with a delay."""
        with self._lock:
            expired = [key for key in self.expired(now) if keys is None or key in set(keys)]
            for key in expired:
                self._store(key, None)
            return expired

    @contextmanager
    def _call(self, call: TableCall) -> Iterator[None]:
        self.faults.before(call)
        with self._lock:
            yield
        self.faults.after(call)


def _position(index: Index, key: Key, item: Item | None) -> tuple[str, tuple[Any, Key]] | None:
    """Return the partition and position of the item's entry in the index; None if it has no entry."""
    if item is None or index.partition not in item or index.sort not in item:
        return None
    return item[index.partition], (item[index.sort], key)
