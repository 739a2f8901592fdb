"""Blobs port: payloads too large for an item, by name; and the versions of stored objects."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct


class Blobs(Protocol):
    """Store of payloads too large for a table item, by name. Every method may raise StoreUnavailable or StoreError."""

    async def put(self, name: str, content: bytes) -> None:
        """Store the bytes under the name. A repeat with the same bytes has no effect."""
        ...

    async def put_new(self, name: str, content: bytes, metadata: Mapping[str, str], *, media_type: str = "") -> bool:
        """Store the bytes and their metadata unless the name is used. Return True if the call has stored them.

        After a lost response, a repeat may return False although the first call stored the bytes. The metadata must be
        ASCII and at most 2 KB. Only S3 stores the media type.
        """
        ...

    async def get(self, name: str) -> bytes | None:
        """Return the bytes stored under the name; None if the name does not exist."""
        ...

    async def metadata(self, name: str) -> Mapping[str, str] | None:
        """Return the metadata that `put_new` stored under the name; None if the name does not exist."""
        ...

    async def names(self, prefix: str) -> Sequence[str]:
        """Return the names of all stored payloads with this prefix."""
        ...

    async def delete(self, name: str) -> None:
        """Delete the bytes stored under the name, if they exist."""
        ...


class ObjectVersion(Struct, frozen=True):
    """A version of a stored object, or a delete marker."""

    name: str
    version_id: str
    size: int
    """Size of the version in bytes; 0 for a delete marker."""
    is_marker: bool
    modified: datetime


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
