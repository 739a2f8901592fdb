"""Stores to erase data from in SQLite files: the table, and the blobs, each with one version."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from aion_core.local.sqlite.database import Database
from aion_core.local.sqlite.table import SQLiteTable
from aion_core.table.item import LAST, Key
from aion_core.table.writes import Delete
from aion_tools.erasure.stores import ObjectVersion, VersionPage


class ErasableSQLiteTable(SQLiteTable):
    """`ErasableTable` in one SQLite file."""

    async def delete_all(self, keys: Sequence[Key]) -> Sequence[Key]:
        """See `ErasableTable.delete_all`. This implementation always deletes all of the items."""
        await self.transact([Delete(key) for key in keys])
        return []


class SQLiteObjectVersions:
    """`ObjectVersions` over the file of `SQLiteBlobs`, with one version of each blob: the time of its last write."""

    def __init__(self, blobs: Database) -> None:
        self._blobs = blobs

    async def page(self, prefix: str, *, after: Any = None) -> VersionPage:
        """See `ObjectVersions.page`. It returns all versions in one page."""
        statement = "SELECT name, length(content), modified FROM blobs WHERE name BETWEEN ? AND ?"

        def work(connection: sqlite3.Connection) -> list[tuple[str, int, float]]:
            return connection.execute(statement, (prefix, prefix + LAST)).fetchall()

        found = await self._blobs.read(work)
        return VersionPage([ObjectVersion(name, repr(at), size, False) for name, size, at in found])

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        """See `ObjectVersions.delete`."""
        # Keep a blob that was written again since its page was read, as a bucket keeps a newer version.
        statement, rows = (
            "DELETE FROM blobs WHERE name = ? AND modified = ?",
            [(name, float(at)) for name, at in versions],
        )
        await self._blobs.write(lambda connection: connection.executemany(statement, rows))
