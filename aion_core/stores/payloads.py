"""Values of any size as attributes of an item: compressed, and in a blob if the item would be too large."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from aion_core.errors import StoreCorrupt
from aion_core.ports import Blobs
from aion_core.ports.table import Item

LARGE_BYTES = 32 * 1024
"""A larger payload is stored as a blob: S3 is cheaper than the write units of an item."""

FAST_BYTES = 256 * 1024
"""A larger value is compressed fast rather than well: on S3, size costs next to nothing."""


def compress(content: bytes) -> bytes:
    """Return the bytes compressed by zlib."""
    return zlib.compress(content, level=1 if len(content) > FAST_BYTES else -1)


@dataclass(frozen=True, slots=True)
class Payload:
    """A serialized value as it is stored: the serializer's type, the compressed bytes, and the value's channel."""

    type: str
    body: bytes
    channel: str = ""

    @classmethod
    def of(cls, serialized: tuple[str, bytes], channel: str = "") -> Self:
        """Compress what the serializer returned."""
        return cls(serialized[0], compress(serialized[1]), channel)

    @property
    def serialized(self) -> tuple[str, bytes]:
        """The serializer's type and bytes."""
        return self.type, zlib.decompress(self.body)


class Payloads:
    """Payloads in items and in blobs."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def attributes(self, payloads: Mapping[str, Payload], *, folder: str) -> Item:
        """Return the attributes that hold the payloads, by name; large payloads share a blob in the folder."""
        if sum(len(payload.body) for payload in payloads.values()) <= LARGE_BYTES:
            return {name: _described(payload, body=payload.body) for name, payload in payloads.items()}
        # The blob first: an item never refers to a missing blob, and a blob without an item expires with its folder.
        blob, at = f"{folder}/{uuid4()}", 0
        await self._blobs.put(blob, b"".join(payload.body for payload in payloads.values()))
        attributes: Item = {}
        for name, payload in payloads.items():
            size = len(payload.body)
            attributes[name] = _described(payload, blob=blob, at=at, size=size)
            at += size
        return attributes

    async def of(self, item: Item) -> dict[str, Payload]:
        """Return the item's payloads by attribute; raises StoreCorrupt if a blob is missing."""
        payloads: dict[str, Payload] = {}
        blobs: dict[str, bytes] = {}
        for name, stored in item.items():
            if not isinstance(stored, dict):
                continue
            if "blob" in stored:
                blob = stored["blob"]
                if blob not in blobs:
                    blobs[blob] = await self._content(blob)
                body = blobs[blob][stored["at"] : stored["at"] + stored["size"]]
            else:
                body = stored["body"]
            payloads[name] = Payload(stored["type"], body, stored["channel"])
        return payloads

    async def _content(self, blob: str) -> bytes:
        content = await self._blobs.get(blob)
        if content is None:
            raise StoreCorrupt("The payload of a checkpoint is missing.")
        return content


def _described(payload: Payload, **where: bytes | str | int) -> Item:
    return {"type": payload.type, "channel": payload.channel, **where}
