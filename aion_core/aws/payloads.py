"""Values of any size as attributes of an item: packed, and in a blob where the item would be too large."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from aion_core.aws import items
from aion_core.aws.items import Item
from aion_core.aws.task_log import LARGE_BYTES
from aion_core.errors import StoreCorrupt
from aion_core.ports import Blobs

FAST_BYTES = 256 * 1024
"""From here on packing is to be fast rather than small: it lies in S3, where size costs next to nothing."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A serialized value as it is kept: the serializer's word for how, the packed bytes, and what it is a value of."""

    type: str
    body: bytes
    channel: str = ""

    @classmethod
    def of(cls, serialized: tuple[str, bytes], channel: str = "") -> Self:
        """Pack what the serializer made."""
        kind, body = serialized
        return cls(kind, zlib.compress(body, level=1 if len(body) > FAST_BYTES else -1), channel)

    @property
    def serialized(self) -> tuple[str, bytes]:
        """What the serializer made."""
        return self.type, zlib.decompress(self.body)


class Payloads:
    """Payloads in items, and in blobs."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def attributes(self, payloads: Mapping[str, Payload], *, folder: str) -> Item:
        """Return the attributes that hold the payloads, by name; if they are large, they share a blob in the folder."""
        if sum(len(payload.body) for payload in payloads.values()) <= LARGE_BYTES:
            return {name: _attribute(payload, body={"B": payload.body}) for name, payload in payloads.items()}
        # The blob first: an item never points at nothing, and a blob that no item names expires with the bucket.
        blob, at = f"{folder}/{uuid4()}", 0
        await self._blobs.put(blob, b"".join(payload.body for payload in payloads.values()))
        attributes: Item = {}
        for name, payload in payloads.items():
            size = len(payload.body)
            attributes[name] = _attribute(payload, blob=items.text(blob), at=items.number(at), size=items.number(size))
            at += size
        return attributes

    async def of(self, item: Item) -> dict[str, Payload]:
        """Return the item's payloads, by attribute; raises StoreCorrupt where a blob is missing."""
        payloads: dict[str, Payload] = {}
        blobs: dict[str, bytes] = {}
        for name, attribute in item.items():
            if "M" not in attribute:
                continue
            kept = attribute["M"]
            if "blob" in kept:
                blob = kept["blob"]["S"]
                if blob not in blobs:
                    blobs[blob] = await self._content(blob)
                at = int(kept["at"]["N"])
                body = blobs[blob][at : at + int(kept["size"]["N"])]
            else:
                body = kept["body"]["B"]
            payloads[name] = Payload(kept["type"]["S"], body, kept["channel"]["S"])
        return payloads

    async def _content(self, blob: str) -> bytes:
        content = await self._blobs.get(blob)
        if content is None:
            raise StoreCorrupt("The payload of a checkpoint is missing.")
        return content


def _attribute(payload: Payload, **where: Item) -> Item:
    return {"M": {"type": items.text(payload.type), "channel": items.text(payload.channel), **where}}
