"""Large payloads in a dict, with the promises of `ports.Blobs`."""


class MemoryBlobs:
    """`ports.Blobs` for one process."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    async def put(self, name: str, content: bytes) -> None:
        """See `ports.Blobs.put`."""
        self._contents[name] = content

    async def get(self, name: str) -> bytes | None:
        """See `ports.Blobs.get`."""
        return self._contents.get(name)

    async def delete(self, name: str) -> None:
        """See `ports.Blobs.delete`."""
        self._contents.pop(name, None)
