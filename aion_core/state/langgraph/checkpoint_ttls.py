"""TTLs of the checkpoints of a turn. None of them outlives the history of DeltaChannels that it depends on."""

from collections.abc import Sequence

from langgraph.checkpoint.base import CheckpointMetadata

from aion_core.engine.fenced_writes import FencedWrites
from aion_core.state.langgraph.delta_history import DeltaHistory
from aion_core.state.langgraph.thread_items import StoredCheckpoint, ThreadItems
from aion_core.state.ttl_renewal import renew
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import SORT, Item
from aion_core.table.schema import TTL_ATTRIBUTE
from aion_core.table.ttl import Ttl

_COUNTERS = "counters_since_delta_snapshot"
"""Key in the metadata of a checkpoint that lacks the whole value of a DeltaChannel."""


class CheckpointTtls:
    """TTL of a turn's items, and renewals of the earlier items of the thread on which they depend."""

    def __init__(
        self, thread_items: ThreadItems, writes: FencedWrites, blobs: Blobs, ttl: Ttl, *, in_turn: bool
    ) -> None:
        self._thread_items, self._writes, self._blobs, self._ttl = thread_items, writes, blobs, ttl
        # Give all items of a turn the same TTL, because a DeltaChannel's value depends on the checkpoints before. It is
        # fixed by the first write or the first read of a history. Later it may only become earlier.
        self._expires = ttl.state_end() if in_turn else None
        self._is_fixed = False
        self._bases: dict[str, StoredCheckpoint] = {}
        """Last checkpoint that this turn has read, by namespace, unless it has also read the checkpoint's history."""

    def of_new_item(self) -> int:
        """Return the TTL of a new item of the turn."""
        self._is_fixed = True
        return self._expires or self._ttl.state_end()

    def note_read(self, stored: StoredCheckpoint) -> None:
        """Note that this turn has read a checkpoint, perhaps as the base of its next one."""
        self._bases[stored.place.ns] = stored

    async def keep_base(self, thread_id: str, ns: str, parent: str | None, metadata: CheckpointMetadata) -> None:
        """Renew the base of a new checkpoint that lacks the whole value of a DeltaChannel, if it expires soon."""
        base = self._bases.pop(ns, None)
        if base is not None and base.place.checkpoint_id == parent and metadata.get(_COUNTERS) and self._expires:
            # The base has the whole values of DeltaChannels, so LangGraph has not asked for their history.
            self._expires = await self._kept(thread_id, parent, [*base.writes, base.item], self._expires)

    async def keep_history(self, thread_id: str, ns: str, history: DeltaHistory) -> None:
        """Renew the checkpoints with the history that this turn has read, if they expire soon."""
        if history.checkpoint_id is not None and self._expires is not None:
            self._bases.pop(ns, None)
            self._expires = await self._kept(thread_id, history.checkpoint_id, history.items, self._expires)

    async def renew_newest(self, thread_id: str, newest: StoredCheckpoint) -> None:
        """Renew the newest checkpoint and all later items of its thread, if they could expire before their task."""
        if newest.item[TTL_ATTRIBUTE] < self._ttl.state_end(0.5):
            await self._renew(thread_id, newest.place.checkpoint_id, self._ttl.state_end())

    async def _kept(self, thread_id: str, checkpoint_id: str, history: Sequence[Item], turn_expires: int) -> int:
        """Renew a checkpoint and the items with its history, if they expire soon. Return the TTL of this turn's items.

        The items of the turn depend on the history, so they must not outlive it.
        """
        expires, renewed = min(int(item[TTL_ATTRIBUTE]) for item in history), self._ttl.history_end()
        is_old = expires < self._ttl.history_end(0.5)
        if is_old and await self._renew(thread_id, checkpoint_id, renewed, history):
            expires = renewed
        was_fixed, self._is_fixed = self._is_fixed, True
        return min(expires, turn_expires) if was_fixed else expires

    async def _renew(self, thread_id: str, checkpoint_id: str, expires: int, ancestors: Sequence[Item] = ()) -> bool:
        """Renew a checkpoint, all later items of its thread, and its ancestors. Return False if one is deleted."""
        # Read the checkpoints of subgraphs first, so that the graph's own checkpoints are renewed last: if a renewal is
        # interrupted, the next one repeats it.
        pages = self._thread_items.pages(thread_id, keys.namespace_sort(None), newest_first=True)
        later = [
            item
            async for page in pages
            for item in page
            if keys.checkpoint_of(item[SORT]).checkpoint_id >= checkpoint_id
        ]
        items = {item[SORT]: item for item in (*later, *ancestors) if item[TTL_ATTRIBUTE] < expires}
        return await renew(self._writes, self._blobs, [*items.values()], expires)
