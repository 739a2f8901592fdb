"""The ports of a deletion of owners: deletes of many items, and versions of objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from aion_core.ports.table import Key, Table


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """A version of an object, or a delete marker."""

    name: str
    version_id: str
    size: int
    """In bytes; a delete marker has none."""
    is_marker: bool
    modified: datetime


@dataclass(frozen=True, slots=True)
class VersionPage:
    """One page of versions."""

    versions: Sequence[ObjectVersion]
    next: Any = None
    """Pass it as `after` for the next page; None on the last page."""


class ErasableTable(Table, Protocol):
    """A table that deletes many items at once."""

    async def delete_all(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Delete up to 25 items, there or not; return the keys of those that a throttled table has left."""
        ...


class ObjectVersions(Protocol):
    """All versions of the objects of one bucket. Every method may raise StoreUnavailable or StoreError."""

    async def page(self, prefix: str, *, after: Any = None) -> VersionPage:
        """Return a page of the versions and delete markers of the objects whose names begin with the prefix."""
        ...

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        """Delete up to 250 versions, by name and version id, there or not."""
        ...
