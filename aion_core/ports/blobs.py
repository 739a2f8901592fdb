"""Where large payloads lie."""

from typing import Protocol


class Blobs(Protocol):
    """Where payloads lie that are too large for a row."""

    async def put(self, name: str, content: bytes) -> None:
        """Keep the bytes under the name; a repeat with the same bytes changes nothing."""
        ...

    async def get(self, name: str) -> bytes | None:
        """Return the bytes, None where nothing has this name."""
        ...

    async def delete(self, name: str) -> None:
        """Forget the bytes, there or not."""
        ...
