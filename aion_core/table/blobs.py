"""Blobs port: payloads too large for an item, by name.

A blob is stored before the item that names it, so a failed write can leave a blob without an item. It is deleted once it
is older than any item of its folder: on AWS by the lifecycle rules of the bucket (infra/state.yaml), in `aion dev` by
the puts of `SQLiteBlobs` (aion_core/local/sqlite/blobs.py). Blobs in the folder permanent/ are never deleted by age.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Blobs(Protocol):
    """Store of payloads too large for a table item, by name. Every method may raise StoreUnavailable or StoreError."""

    bytes_cost_money: bool
    """True if the store and its table charge for bytes, so that it pays to compress them well."""

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
