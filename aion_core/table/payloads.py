"""Payloads of any size in an item: compressed, or in a blob that the item names."""

import zlib
from collections.abc import Mapping
from uuid import uuid4

from msgspec import Struct

from aion_core.errors import StoreCorrupt
from aion_core.table.blobs import Blobs
from aion_core.table.item import Item

LARGE_BYTES = 32 * 1024
"""Largest payload stored in an item. A larger payload becomes a blob: S3 costs less than DynamoDB's write units."""

FAST_BYTES = 3 * LARGE_BYTES
"""Size from which compression is optimised for speed: a text compresses to a third, and a blob's size costs little."""

FAST = 1
"""zlib's level for speed. Its usual one takes three times as long for a conversation, and saves a tenth of its bytes."""

SMALL_BYTES = 4096
"""Size up to which zlib gets little memory: to allocate its usual 256 KB takes ten times as long as to compress."""

TINY_BYTES = 512
"""Size up to which values are not compressed, only stored in zlib's format: they fit into one write unit of 1 KB."""


def compress(content: bytes, blobs: Blobs) -> bytes:
    """Return the bytes in zlib's format, compressed if this saves money or time in the store with these blobs."""
    if len(content) > SMALL_BYTES:
        return zlib.compress(content, FAST if len(content) > FAST_BYTES or not blobs.bytes_cost_money else -1)
    stored = len(content) <= TINY_BYTES or not blobs.bytes_cost_money
    packer = zlib.compressobj(0, wbits=9, memLevel=1) if stored else zlib.compressobj(wbits=12, memLevel=5)
    return packer.compress(content) + packer.flush()


class StoredPayload(Struct, frozen=True):
    """Stored form of a serialized value: the serializer's type, the compressed bytes and LangGraph's channel."""

    type: str
    body: bytes
    channel: str = ""

    @property
    def serialized(self) -> tuple[str, bytes]:
        """The serializer's output: its type and the uncompressed bytes."""
        return self.type, zlib.decompress(self.body)


class Payloads:
    """Store for payloads. Small payloads become attributes of an item, large payloads a blob."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._last = "", b""
        """Name and content of the last read blob, until a write. A turn reads its first checkpoint twice."""

    def packed(self, serialized: tuple[str, bytes], channel: str = "") -> StoredPayload:
        """Return the stored form of the serializer's output: a type and bytes."""
        return StoredPayload(serialized[0], compress(serialized[1], self._blobs), channel)

    async def attributes(self, payloads: Mapping[str, StoredPayload], *, folder: str) -> Item:
        """Return an item's attributes for the payloads. Store large payloads together as one blob in the folder."""
        self._last = "", b""
        if sum([len(payload.body) for payload in payloads.values()]) <= LARGE_BYTES:
            return {name: _described(payload, body=payload.body) for name, payload in payloads.items()}
        # Store the blob before the item, because an item must not refer to a missing blob. blobs.py says what
        # deletes unused blobs.
        blob, at = f"{folder}/{uuid4()}", 0
        await self._blobs.put(blob, b"".join(payload.body for payload in payloads.values()))
        attributes: Item = {}
        for name, payload in payloads.items():
            size = len(payload.body)
            attributes[name] = _described(payload, blob=blob, at=at, size=size)
            at += size
        return attributes

    async def of(self, item: Item) -> dict[str, StoredPayload]:
        """Return an item's payloads by attribute name. Raises StoreCorrupt if a blob is missing."""
        payloads: dict[str, StoredPayload] = {}
        for name, stored in item.items():
            if not isinstance(stored, dict):
                continue
            if blob := stored.get("blob"):
                body = (await self._content(blob))[stored["at"] : stored["at"] + stored["size"]]
            else:
                body = stored["body"]
            payloads[name] = StoredPayload(stored["type"], body, stored["channel"])
        return payloads

    async def _content(self, blob: str) -> bytes:
        name, content = self._last
        if name == blob:
            return content
        found = await self._blobs.get(blob)
        if found is None:
            raise StoreCorrupt("A payload of a checkpoint or an ADK session is missing in the bucket.")
        self._last = blob, found
        return found


def blobs_of(item: Item) -> list[str]:
    """Return the names of the blobs with an item's payloads. Each write of a LangGraph task may add a blob to its item."""
    return list(dict.fromkeys(value["blob"] for value in item.values() if isinstance(value, dict) and "blob" in value))


def _described(payload: StoredPayload, **location: bytes | str | int) -> Item:
    return {"type": payload.type, "channel": payload.channel, **location}
