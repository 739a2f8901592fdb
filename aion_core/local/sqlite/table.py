"""`Table` over a SQLite file."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from aion_core.clock import Clock
from aion_core.local.sqlite.database import Database
from aion_core.local.sqlite.rows import INDEX_STATEMENTS, INDEXED, read_item, store_item, unpacked
from aion_core.table.conditions import Condition
from aion_core.table.item import PARTITION, SORT, Index, Item, Key, key_of
from aion_core.table.port import Page
from aion_core.table.refusals import FINE, canceled
from aion_core.table.schema import INDEXES, TTL_ATTRIBUTE
from aion_core.table.semantics.conditions import holds
from aion_core.table.semantics.pages import check_filter, check_query, first_page, index_entry
from aion_core.table.semantics.tokens import RecentTokens
from aion_core.table.semantics.writes import (
    check_key,
    check_transaction,
    check_transaction_size,
    check_write,
    outcome,
)
from aion_core.table.writes import ConditionCheck, Delete, SingleWrite, Update, Write

KEY_AND_TTL = (PARTITION, SORT, TTL_ATTRIBUTE)


_SCHEMA = f"""
CREATE TABLE items (
    pk TEXT NOT NULL, sk TEXT NOT NULL, item BLOB NOT NULL, {TTL_ATTRIBUTE} INTEGER, {", ".join(INDEXED)}, PRIMARY KEY (pk, sk)
);
CREATE INDEX items_by_expiry ON items ({TTL_ATTRIBUTE}) WHERE {TTL_ATTRIBUTE} IS NOT NULL;
{INDEX_STATEMENTS}
"""

CLEANING = 100
"""Number of written items between two deletions of expired items. A deletion removes up to twice as many items, so that
expired items cannot accumulate."""

GRACE_SECONDS, MAX_TTL_AGE = 3600, 5 * 365 * 86_400
"""Limits in seconds. As in DynamoDB, an item stays readable for a time after its TTL, and a very old TTL is ignored.

So code that does not check the TTL fails in tests with SQLite as it does on AWS.
"""


class SQLiteTable:
    """`Table` in one SQLite file, with consistent indexes."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open the file, and create it if missing. Raises ConfigurationError if the file has another version."""
        self._clock = clock
        self._database = Database(path, _SCHEMA)
        self._tokens = RecentTokens(clock)
        self._written = CLEANING
        """Number of items written since the last deletion of expired items. The first write of a process deletes too."""

    def close(self) -> None:
        """Close the SQLite file."""
        self._database.close()

    async def get(self, key: Key) -> Item | None:
        """See `Table.get`."""
        check_key(key)
        return await self._database.read(lambda connection: read_item(connection, key))

    def get_blocking(self, key: Key) -> Item | None:
        """See `Table.get_blocking`."""
        check_key(key)
        return self._database.read_blocking(lambda connection: read_item(connection, key))

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
        span, values = _span(("sk",), first, last, after, newest_first=newest_first)

        def work(connection: sqlite3.Connection) -> Page:
            rows = connection.execute(f"SELECT item FROM items WHERE pk = ? AND {span}", (partition, *values))  # noqa: S608
            page, is_cut = first_page(map(unpacked, rows), limit)
            items = [{name: item[name] for name in KEY_AND_TTL if name in item} for item in page] if keys_only else page
            return Page(items, len(items), (page[-1][SORT],) if is_cut else None)

        return await self._database.read(work)

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
        span, values = _span((index.sort, "pk", "sk"), first, last, after, newest_first=newest_first)
        statement = f"SELECT item FROM items WHERE {index.partition} = ? AND {span}"  # noqa: S608

        def work(connection: sqlite3.Connection) -> Page:
            rows = connection.execute(statement, (partition, *values))
            page, is_cut = first_page((index_entry(index, unpacked(row)) or {} for row in rows), limit)
            found = [entry for entry in page if holds(only_if, entry)]
            last_of = (page[-1][index.sort], page[-1][PARTITION], page[-1][SORT]) if is_cut else None
            return Page([] if count_only else found, len(found), last_of, last_of[0] if last_of else None)

        return await self._database.read(work, large=True)

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

        def work(connection: sqlite3.Connection) -> Page:
            statement = "SELECT item FROM items WHERE (pk, sk) > (?, ?) ORDER BY pk, sk"
            items = map(unpacked, connection.execute(statement, after or ("", "")))
            page, is_cut = first_page(item for item in items if crc32(item[PARTITION].encode()) % segments == segment)
            found = [item for item in page if holds(only_if, item)]
            chosen = [{name: item[name] for name in attributes if name in item} for item in found]
            return Page(chosen if attributes else found, len(found), key_of(page[-1]) if is_cut else None)

        return await self._database.read(work, large=True)

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        """See `Table.write`."""
        check_write(write)
        [(before, after)] = await self._database.write(lambda connection: self._make(connection, [write]))
        returned = after if isinstance(write, Update) else before if isinstance(write, Delete) else None
        return returned if returning else None

    def write_blocking(self, write: SingleWrite) -> None:
        """See `Table.write_blocking`."""
        check_write(write)
        self._database.write_blocking(lambda connection: self._make(connection, [write]))

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """See `Table.transact`."""
        check_transaction(writes, token)
        if not self._tokens.have(token, writes):
            await self._database.write(lambda connection: self._make(connection, writes))
            self._tokens.add(token, writes)

    def _make(self, connection: sqlite3.Connection, writes: Sequence[Write]) -> list[tuple[Item | None, Item | None]]:
        """Make the writes in the connection's transaction. Return each item before and after its write."""
        befores = [read_item(connection, write.key) for write in writes]
        outcomes = [outcome(write, before, INDEXES) for write, before in zip(writes, befores, strict=True)]
        if any(each.reason != FINE for each in outcomes):
            if len(writes) == 1 and outcomes[0].error:
                raise outcomes[0].error
            raise canceled([each.reason for each in outcomes])
        check_transaction_size([each.after for each in outcomes if each.after is not None])
        for write, before, each in zip(writes, befores, outcomes, strict=True):
            if not isinstance(write, ConditionCheck):
                store_item(connection, write.key, before, each.after)
        self._written += len(writes)
        if self._written >= CLEANING:
            self._written = 0
            self._clean(connection)
        return [(before, each.after) for before, each in zip(befores, outcomes, strict=True)]

    def _clean(self, connection: sqlite3.Connection) -> None:
        now = self._clock.now().timestamp()
        expired = "SELECT item FROM items WHERE expires BETWEEN ? AND ? LIMIT ?"
        bounds = now - MAX_TTL_AGE, now - GRACE_SECONDS
        for item in map(unpacked, connection.execute(expired, (*bounds, 2 * CLEANING)).fetchall()):
            store_item(connection, key_of(item), item, None)


def _span(
    columns: tuple[str, ...], first: Any, last: Any, after: tuple[Any, ...] | None, *, newest_first: bool
) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL condition and order for a range of sort keys after the position `after`, with its values."""
    row, marks, column = ", ".join(columns), ", ".join("?" * len(columns)), columns[0]
    order = ", ".join(f"{each} DESC" for each in columns) if newest_first else row
    if after is None:
        return f"{column} BETWEEN ? AND ? ORDER BY {order}", (first, last)
    if newest_first:
        return f"({row}) < ({marks}) AND {column} >= ? ORDER BY {order}", (*after, first)
    return f"({row}) > ({marks}) AND {column} <= ? ORDER BY {order}", (*after, last)
