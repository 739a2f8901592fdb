"""The state that a user's or an app's sessions share: an item a value, so that two who write two of them do not meet."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aion_core.aws import items, keys, writes
from aion_core.aws.items import Item
from aion_core.aws.session_items import SessionItems, blob_of
from aion_core.aws.table import Table
from aion_core.aws.writes import Write
from aion_core.errors import StoreCorrupt, StoreError
from aion_core.ports import Blobs
from aion_core.ports.schema import KEPT
from aion_core.sessions.service import SessionKey
from aion_core.sessions.state import Scoped
from aion_core.sessions.stored import value_bytes, value_of


@dataclass(frozen=True, slots=True)
class SharedChange:
    """The writes of what changes; the blobs they name, and those that nothing names once they are made, by value."""

    writes: list[Write] = field(default_factory=list)
    fresh: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)


class SharedState:
    """The shared state of one table. It has no end; so its blobs have none, and those that are replaced are deleted."""

    def __init__(self, reads: Table, made: SessionItems, blobs: Blobs, *, table: str) -> None:
        self._reads, self._items, self._blobs, self._table = reads, made, blobs, table
        self._known: dict[str, str] = {}
        """The blobs that this turn has seen values in, by the values' keys."""

    async def of(self, app_name: str, user_id: str) -> Scoped:
        """Return what the user's sessions with the app share."""
        app, user = await asyncio.gather(
            self._values(keys.app_state_partition(app_name)), self._values(keys.user_state_partition(user_id, app_name))
        )
        return Scoped(app=app, user=user)

    async def change(self, key: SessionKey, state: Scoped) -> SharedChange:
        """Return the writes that make the values the state's."""
        change = SharedChange()
        partitions = [
            (keys.app_state_partition(key.app_name), state.app),
            (keys.user_state_partition(key.user_id, key.app_name), state.user),
        ]
        for partition, values in partitions:
            folder = f"{KEPT}/state/{partition.partition('#')[2]}"
            for name, value in values.items():
                at = keys.shared_state_key(partition, name)
                kept = await self._items.sealed(at, value_bytes([name, value]), folder=folder)
                change.writes.append(writes.put(self._table, at, {"v": items.number(items.VERSION), **kept}))
                if blob := blob_of(kept):
                    change.fresh[_name(at)] = blob
                if _name(at) in self._known:
                    change.replaced[_name(at)] = self._known[_name(at)]
        return change

    async def made(self, change: SharedChange) -> None:
        """Forget what the change has replaced, now that it is made; what a refused one has brought stays behind."""
        self._known |= change.fresh
        for name, blob in change.replaced.items():
            if name not in change.fresh:
                del self._known[name]
            with suppress(StoreError):
                await self._blobs.delete(blob)

    async def _values(self, partition: str) -> dict[str, Any]:
        seen: list[Item] = []
        while True:
            found = await self._reads.query(partition, "STATE#", f"STATE#{keys.LAST}")
            try:
                contents = await self._items.contents(found)
            except StoreCorrupt:
                # Replaced between the two reads, the blob of a value is gone: the value lies elsewhere now.
                if found == seen:
                    raise
                seen = found
            else:
                self._known |= {_name(item): blob for item in found if (blob := blob_of(item))}
                return dict([value_of(content) for content in contents])


def _name(key: keys.Key) -> str:
    return f"{key['pk']['S']}/{key['sk']['S']}"
