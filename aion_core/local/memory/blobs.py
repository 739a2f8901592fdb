"""Blobs in memory."""

from collections.abc import Mapping, Sequence


class MemoryBlobs:
    """`Blobs` for one process."""

    bytes_cost_money = False

    def __init__(self) -> None:
        self._blobs: dict[str, tuple[bytes, Mapping[str, str]]] = {}

    async def put(self, name: str, content: bytes) -> None:
        """See `Blobs.put`."""
        self._blobs[name] = content, {}

    async def put_new(self, name: str, content: bytes, metadata: Mapping[str, str], *, media_type: str = "") -> bool:
        """See `Blobs.put_new`."""
        blob = content, dict(metadata)
        return self._blobs.setdefault(name, blob) is blob

    async def get(self, name: str) -> bytes | None:
        """See `Blobs.get`."""
        return self._blobs[name][0] if name in self._blobs else None

    async def metadata(self, name: str) -> Mapping[str, str] | None:
        """See `Blobs.metadata`."""
        return self._blobs[name][1] if name in self._blobs else None

    async def names(self, prefix: str) -> Sequence[str]:
        """See `Blobs.names`."""
        return [name for name in list(self._blobs) if name.startswith(prefix)]

    async def delete(self, name: str) -> None:
        """See `Blobs.delete`."""
        self._blobs.pop(name, None)
