"""Renewal of the TTLs of a turn's items and of their blobs."""

import asyncio
from collections.abc import Sequence

from aion_core.engine.fenced_writes import FencedWrites
from aion_core.table.blobs import Blobs
from aion_core.table.conditions import Exists
from aion_core.table.item import Item, key_of
from aion_core.table.payloads import blobs_of
from aion_core.table.refusals import WriteRefused
from aion_core.table.schema import TTL_ATTRIBUTE
from aion_core.table.writes import Change, Update

ITEMS_AT_ONCE = 50
"""Number of items to renew in one transaction. The items of a transaction may have at most 4 MB."""


async def renew(writes: FencedWrites, blobs: Blobs, items: Sequence[Item], expires: int) -> bool:
    """Renew the items in order, and their blobs. Return False if another process has deleted one of the items.

    Raises LeaseLost if another lease holder has the context.
    """
    # Write only the TTL, because another turn may have changed the rest of the item.
    change = Change({TTL_ATTRIBUTE: expires}, only_if=Exists())
    for start in range(0, len(items), ITEMS_AT_ONCE):
        part = items[start : start + ITEMS_AT_ONCE]
        await asyncio.gather(*(_renew_blob(blobs, name) for item in part for name in blobs_of(item)))
        try:
            await writes.commit(*(Update(key_of(item), change) for item in part))
        except WriteRefused:
            return False
    return True


async def _renew_blob(blobs: Blobs, name: str) -> None:
    """Store a blob again, if it still exists, because S3 deletes objects by their age."""
    content = await blobs.get(name)
    if content is not None:
        await blobs.put(name, content)
