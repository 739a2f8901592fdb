"""Store of large payloads."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Blobs(Protocol):
    """Payloads that are too large for an item, by name. Every method may raise StoreUnavailable or StoreError."""

    async def put(self, name: str, content: bytes) -> None:
        """Store the bytes under the name; a repeat with the same bytes changes nothing."""
        ...

    async def put_new(self, name: str, content: bytes, metadata: Mapping[str, str], *, media_type: str = "") -> bool:
        """Store the bytes and their metadata unless the name is taken; return True if they were stored.

        After a lost answer this may return False although the bytes are this call's. The metadata is ASCII and at most
        2 KB. Only S3 stores the media type.
        """
        ...

    async def get(self, name: str) -> bytes | None:
        """Return the bytes, None if the name is free."""
        ...

    async def metadata(self, name: str) -> Mapping[str, str] | None:
        """Return the metadata that `put_new` stored, None if the name is free."""
        ...

    async def names(self, prefix: str) -> Sequence[str]:
        """Return the names that begin with the prefix."""
        ...

    async def delete(self, name: str) -> None:
        """Delete the bytes, there or not."""
        ...
