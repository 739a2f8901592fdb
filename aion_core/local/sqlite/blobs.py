"""Large payloads in a SQLite file."""

import itertools
import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from aion_core.clock import Clock
from aion_core.local.sqlite.database import Database
from aion_core.table.item import LAST
from aion_core.table.schema import RETENTIONS

_SCHEMA = """
CREATE TABLE blobs (
    name TEXT PRIMARY KEY, content BLOB NOT NULL, metadata TEXT NOT NULL, expires REAL, modified REAL NOT NULL
);
CREATE INDEX blobs_by_expiry ON blobs (expires) WHERE expires IS NOT NULL
"""

CLEANING = 100
"""Number of puts between two deletions of expired blobs, and largest number of blobs in one deletion."""

GRACE = timedelta(days=15)
"""Time for which a blob outlives the items that refer to it, as in the lifecycle rules of the S3 bucket."""


class SQLiteBlobs:
    """`Blobs` in a separate SQLite file, so that large payloads do not delay the table."""

    bytes_cost_money = False

    def __init__(self, path: Path, clock: Clock, *, retention: timedelta = timedelta(days=30)) -> None:
        """Open the file, and create it if missing. Raises ConfigurationError if the file has another version.

        A blob is deleted some time after `retention`, the lifetime of tasks, unless its folder is permanent.
        """
        self._clock, self._retention = clock, retention
        self.database = Database(path, _SCHEMA)
        self._puts = itertools.count()

    def close(self) -> None:
        """Close the SQLite file."""
        self.database.close()

    async def put(self, name: str, content: bytes) -> None:
        """See `Blobs.put`."""
        await self._put("INSERT OR REPLACE", name, content, {})

    async def put_new(self, name: str, content: bytes, metadata: Mapping[str, str], *, media_type: str = "") -> bool:
        """See `Blobs.put_new`."""
        return await self._put("INSERT OR IGNORE", name, content, metadata)

    async def _put(self, verb: str, name: str, content: bytes, metadata: Mapping[str, str]) -> bool:
        now, folder = self._clock.now(), name.partition("/")[0]
        expires = (now + self._retention * RETENTIONS[folder] + GRACE).timestamp() if folder in RETENTIONS else None
        values = (name, content, json.dumps(dict(metadata)), expires, now.timestamp())

        def work(connection: sqlite3.Connection) -> bool:
            is_stored = connection.execute(f"{verb} INTO blobs VALUES (?, ?, ?, ?, ?)", values).rowcount > 0
            if next(self._puts) % CLEANING == 0:
                connection.execute(
                    "DELETE FROM blobs WHERE rowid IN (SELECT rowid FROM blobs WHERE expires <= ? LIMIT ?)",
                    (now.timestamp(), CLEANING),
                )
            return is_stored

        return await self.database.write(work, large=True)

    async def get(self, name: str) -> bytes | None:
        """See `Blobs.get`."""
        rows = await self._rows("SELECT content FROM blobs WHERE name = ?", name)
        return rows[0] if rows else None

    async def metadata(self, name: str) -> Mapping[str, str] | None:
        """See `Blobs.metadata`."""
        rows = await self._rows("SELECT metadata FROM blobs WHERE name = ?", name)
        return json.loads(rows[0]) if rows else None

    async def names(self, prefix: str) -> Sequence[str]:
        """See `Blobs.names`."""
        return await self._rows("SELECT name FROM blobs WHERE name BETWEEN ? AND ?", prefix, prefix + LAST)

    async def delete(self, name: str) -> None:
        """See `Blobs.delete`."""
        await self.database.write(lambda connection: connection.execute("DELETE FROM blobs WHERE name = ?", (name,)))

    async def _rows(self, statement: str, *values: str) -> list[Any]:
        def work(connection: sqlite3.Connection) -> list[Any]:
            return [value for (value,) in connection.execute(statement, values)]

        return await self.database.read(work, large=True)
