"""Stores to erase data from: a table and a bucket, with the operations that only erasure needs."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from aion_core.table.item import Key
from aion_core.table.port import Table


class ErasableTable(Table, Protocol):
    """A table that can delete many items at once."""

    async def delete_all(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Delete up to 25 items, if they exist. Return the keys of items left over because the table was throttled."""
        ...


class ObjectVersion(Struct, frozen=True):
    """A version of a stored object, or a delete marker."""

    name: str
    version_id: str
    size: int
    """Size of the version in bytes; 0 for a delete marker."""
    is_marker: bool


class VersionPage(Struct, frozen=True):
    """One page of object versions."""

    versions: Sequence[ObjectVersion]
    next: Any = None
    """Position to pass as `after` for the next page; None on the last page."""


class ObjectVersions(Protocol):
    """All versions of the objects of one bucket. Every method may raise StoreUnavailable or StoreError."""

    async def page(self, prefix: str, *, after: Any = None) -> VersionPage:
        """Return a page of the versions and delete markers of objects whose names have this prefix."""
        ...

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        """Delete up to 250 object versions, given as pairs of name and version id, if they exist."""
        ...
