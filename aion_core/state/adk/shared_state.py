"""State that the sessions of a user or an app share. Each value has an item of its own."""

import asyncio
import logging
from typing import Any

from msgspec import Struct, field

from aion_core.errors import StoreCorrupt, StoreError
from aion_core.state.adk.encrypted_items import EncryptedItems
from aion_core.state.adk.scoped_state import ScopedState
from aion_core.state.adk.serialization import value_bytes, value_of
from aion_core.state.adk.session_record import SessionKey
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import LAST, Item, Key, key_of
from aion_core.table.payloads import blobs_of
from aion_core.table.reads import Reads
from aion_core.table.schema import PERMANENT_FOLDER
from aion_core.table.stamp import stamp
from aion_core.table.writes import Put

logger = logging.getLogger(__name__)


class SharedChange(Struct, frozen=True):
    """Writes that change shared state. `fresh` and `replaced` have the names of new and old blobs, by item key."""

    writes: list[Put] = field(default_factory=list)
    fresh: dict[Key, str] = field(default_factory=dict)
    replaced: dict[Key, str] = field(default_factory=dict)


class SharedState:
    """State that the sessions of a user or an app share. Each value has its own item, to avoid conflicts.

    Shared state and its blobs do not expire. Replaced blobs are deleted.
    """

    def __init__(self, reads: Reads, items: EncryptedItems, blobs: Blobs) -> None:
        self._reads, self._items, self._blobs = reads, items, blobs
        self._known: dict[Key, str] = {}
        """Names of the blobs read or written in this turn, by item key."""

    async def of(self, app_name: str, user_id: str) -> ScopedState:
        """Return the state that the user's sessions with the app share."""
        app, user = await asyncio.gather(
            self._values(keys.app_state_partition(app_name)), self._values(keys.user_state_partition(user_id, app_name))
        )
        return ScopedState(app=app, user=user)

    async def change(self, session: SessionKey, state: ScopedState) -> SharedChange:
        """Encrypt the values of shared state. Return their writes; the caller makes them."""
        change = SharedChange()
        user = keys.owner_folder(PERMANENT_FOLDER, session.user_id)
        partitions = [
            (None, f"{PERMANENT_FOLDER}/apps", keys.app_state_partition(session.app_name), state.app),
            (
                session.user_id,
                f"{user}/state",
                keys.user_state_partition(session.user_id, session.app_name),
                state.user,
            ),
        ]
        for owner, parent, partition, values in partitions:
            folder = f"{parent}/{partition.partition('#')[2]}"
            for name, value in values.items():
                key = keys.shared_state_key(partition, name)
                content = await self._items.encrypted(key, value_bytes([name, value]), folder=folder)
                change.writes.append(Put(key, {**stamp(owner), **content}))
                for blob in blobs_of(content):
                    change.fresh[key] = blob
                if key in self._known:
                    change.replaced[key] = self._known[key]
        return change

    async def committed(self, change: SharedChange) -> None:
        """Delete the blobs that a change has replaced, or log a warning. Call it after the writes were made."""
        self._known |= change.fresh
        for key, blob in change.replaced.items():
            if key not in change.fresh:
                del self._known[key]
            try:
                await self._blobs.delete(blob)
            except StoreError:
                # Only log the failure, because the change is stored. The blob remains until somebody deletes it.
                logger.warning("Replaced shared state could not be deleted.", extra={"object": blob}, exc_info=True)

    async def _values(self, partition: str) -> dict[str, Any]:
        previous: list[Item] = []
        while True:
            found = await self._reads.query(partition, "STATE#", f"STATE#{LAST}")
            try:
                contents = await self._items.contents(found)
            except StoreCorrupt:
                # Query again for the new blob, because another turn may have replaced a value and deleted its blob
                # after the query.
                if found == previous:
                    raise
                previous = found
            else:
                self._known |= {key_of(item): blob for item in found for blob in blobs_of(item)}
                return dict([value_of(content) for content in contents])
