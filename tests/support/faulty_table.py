"""Memory table with simulated faults: index lag, throttling, lost responses, partly visible transactions."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.table import MemoryTable
from aion_core.table.item import Index, Item, Key
from aion_core.table.port import Page
from aion_core.table.refusals import CONFLICT, FINE
from aion_core.table.schema import TTL_ATTRIBUTE
from aion_core.table.semantics.pages import index_entry
from aion_core.table.semantics.values import copy_stored
from aion_core.table.writes import SingleWrite, Write


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


class FaultyTable(MemoryTable):
    """Memory table with the faults of a `TableFaults`. It can also list its items and delete the expired ones."""

    def __init__(self, clock: Clock, *, faults: TableFaults | None = None) -> None:
        super().__init__(clock)
        self._clock = clock
        self.faults = faults or TableFaults()
        self._versions: dict[str, dict[Key, list[tuple[datetime, Item | None]]]] = defaultdict(dict)
        """Recent versions of index entries by index, with the times of their changes."""
        self._tokens_in_flight: set[str] = set()
        self._in_flight: dict[Key, Item | None] = {}
        """Previous versions of the items in running transactions."""

    def get_blocking(self, key: Key) -> Item | None:
        """See `Table.get_blocking`."""
        with self._call(TableCall("get", (key,))):
            if key not in self._in_flight:
                return super().get_blocking(key)
            item = self._in_flight[key]
            return None if item is None else self._shown(item)

    async def query(self, partition: str, first: str, last: str, **options: Any) -> Page:
        """See `Table.query`."""
        with self._call(TableCall("query", partition=partition)):
            return await super().query(partition, first, last, **options)

    async def query_index(
        self, index: Index, partition: str, first: str | int, last: str | int, **options: Any
    ) -> Page:
        """See `Table.query_index`."""
        with self._call(TableCall("query_index", partition=partition, index=index.name)):
            return await super().query_index(index, partition, first, last, **options)

    async def scan(self, **options: Any) -> Page:
        """See `Table.scan`."""
        with self._call(TableCall("scan")):
            return await super().scan(**options)

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """See `Table.transact`."""
        call = TableCall("transact", tuple([write.key for write in writes]))
        with self._call(call):
            if self.faults.partway is None:
                await super().transact(writes, token=token)
            else:
                await self._transact_in_steps(call.keys, writes, token, self.faults.partway)

    async def _transact_in_steps(
        self,
        keys: Sequence[Key],
        writes: Sequence[Write],
        token: str,
        partway: Callable[[Sequence[Write]], Awaitable[None]],
    ) -> None:
        with self._lock:
            befores = [self._items.get(key) for key in keys]
            decided = self._accepted(writes, token)
            if decided is None:
                return
            self._in_flight |= zip(keys, befores, strict=True)
            self._tokens_in_flight.add(token)
        # Complete the accepted writes even if the caller is cancelled.
        made = 0
        try:
            for made, (key, after) in enumerate(zip(keys, decided, strict=True), start=1):
                with self._lock:
                    self._store(key, after)
                if made < len(writes):
                    await partway(writes[made:])
        finally:
            with self._lock:
                for key, after in zip(keys[made:], decided[made:], strict=True):
                    self._store(key, after)
                self._tokens.add(token, writes)
                for key in keys:
                    del self._in_flight[key]
                self._tokens_in_flight.discard(token)

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

    def _write(self, write: SingleWrite) -> Item | None:
        with self._call(TableCall("write", (write.key,))):
            return super()._write(write)

    def _shown(self, item: Item, attributes: Sequence[str] = ()) -> Item:
        shown = self.faults.read(copy_stored(item))
        return {name: shown[name] for name in attributes if name in shown} if attributes else shown

    def _page(
        self,
        positions: Sequence[Any],
        item: Callable[[Any], Item],
        after: Any,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> tuple[list[Any], Any]:
        limits = [each for each in (limit, self.faults.page_items) if each is not None]
        return super()._page(positions, item, after, min(limits, default=None), newest_first)

    def _accepted(self, writes: Sequence[Write], token: str) -> list[Item | None] | None:
        if token and token in self._tokens_in_flight:
            raise StoreUnavailable("TransactionInProgressException")
        return super()._accepted(writes, token)

    def _reasons(self, writes: Sequence[Write], reasons: Sequence[str]) -> Sequence[str]:
        faults = self.faults.reasons(writes) or [FINE] * len(writes)
        return [
            CONFLICT if write.key in self._in_flight else fault if fault != FINE else reason
            for write, fault, reason in zip(writes, faults, reasons, strict=True)
        ]

    def _store_entry(self, index: Index, key: Key, before: Item | None, after: Item | None) -> None:
        super()._store_entry(index, key, before, after)
        if self.faults.index_lag and (entry := index_entry(index, after)) != (earlier := index_entry(index, before)):
            now = self._clock.now()
            versions = self._versions[index.name].setdefault(key, [(now, earlier)])
            versions.append((now, entry))

    def _entries(self, index: Index, partition: str, first: Any, last: Any) -> dict[tuple[Any, Key], Item]:
        lagging = self._lagging(index)
        current = super()._entries(index, partition, first, last)
        entries = {position: entry for position, entry in current.items() if position[1] not in lagging}
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

    @contextmanager
    def _call(self, call: TableCall) -> Iterator[None]:
        self.faults.before(call)
        yield
        self.faults.after(call)
