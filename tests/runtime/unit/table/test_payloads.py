"""Payloads of items: small ones in the item, large ones in a blob."""

import random

from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.table.payloads import LARGE_BYTES, Payloads, StoredPayload


class CountingBlobs(MemoryBlobs):
    """Blobs that count their reads."""

    reads = 0

    async def get(self, name: str) -> bytes | None:
        self.reads += 1
        return await super().get(name)


async def test_large_payload_read_twice_is_loaded_once() -> None:
    """LangGraph and its adapter read the same checkpoint at the start of a turn."""
    blobs = CountingBlobs()
    payloads = Payloads(blobs)
    body = random.Random(1).randbytes(LARGE_BYTES + 1)
    first = await payloads.attributes({"state": StoredPayload("msgpack", body)}, folder="threads/t")
    other = await payloads.attributes({"state": StoredPayload("msgpack", body[::-1])}, folder="threads/t")
    for item, expected in [(first, body), (first, body), (other, body[::-1])]:
        assert (await payloads.of(item))["state"].body == expected
    assert blobs.reads == 2
