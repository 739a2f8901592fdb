"""Form of LangGraph's checkpoints in the items of the table.

The serializer is an argument, because LangGraph may give another one to a copy of a checkpointer.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from aion_core.state.langgraph.stored_objects import UnrestorableState, of_channels
from aion_core.state.langgraph.thread_items import StoredCheckpoint
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import SORT, Item
from aion_core.table.payloads import Payloads, StoredPayload
from aion_core.table.schema import THREADS
from aion_core.table.writes import Change, Update

WRITES_A_PAGE = 100
"""Number of writes in one item, since an update expression may have 4 KB. More writes need more items."""

HasChannel = Callable[[str, str], bool]
"""Function that returns True if the graph has a channel, by the checkpoint namespace and the channel's name."""

PackedWrites = Mapping[int, StoredPayload]
"""Serialized writes of a LangGraph task by LangGraph's index; special channels have negative ones."""


def place_of(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Read the thread_id, checkpoint_ns and checkpoint_id from a LangGraph config."""
    named = config["configurable"]
    return named["thread_id"], named.get("checkpoint_ns", ""), get_checkpoint_id(config)


def config_of(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    """Return the LangGraph config that names a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


class CheckpointItems:
    """Conversion of checkpoints, and of the writes of LangGraph tasks, to attributes of items and back."""

    def __init__(self, blobs: Blobs, owner: str) -> None:
        self._payloads, self._folder = Payloads(blobs), keys.owner_folder(THREADS, owner)

    def pack(self, serde: SerializerProtocol, value: Any, channel: str = "") -> StoredPayload:
        """Serialize a checkpoint, or a write to a channel."""
        return self._payloads.packed(serde.dumps_typed(value), channel)

    def pack_writes(self, serde: SerializerProtocol, writes: Sequence[tuple[str, Any]]) -> PackedWrites:
        """Serialize the writes of a LangGraph task, each a channel and a value."""
        # Keep one write per index, because an update expression may set an attribute only once. For a special channel,
        # the last write is valid.
        return {
            WRITES_IDX_MAP.get(channel, index): self.pack(serde, value, channel)
            for index, (channel, value) in enumerate(writes)
        }

    async def attributes(self, thread_id: str, payloads: Mapping[str, StoredPayload]) -> Item:
        """Return the attributes of an item of the thread with these payloads. Large payloads become blobs."""
        return await self._payloads.attributes(payloads, folder=f"{self._folder}/{thread_id}")

    async def updates(
        self, config: RunnableConfig, writes: PackedWrites, task_id: str, task_path: str, stamp: Callable[[], Item]
    ) -> list[Update]:
        """Return the updates that store a LangGraph task's writes. A repeat changes only writes to special channels."""
        thread_id, ns, _ = place_of(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        pages: dict[int, dict[str, StoredPayload]] = {}
        for index, write in writes.items():
            pages.setdefault(max(index, 0) // WRITES_A_PAGE, {})[_slot(index)] = write
        updates = []
        for page, slots in pages.items():
            key = keys.writes_key(thread_id, ns, checkpoint_id, task_id, page)
            attributes = await self.attributes(thread_id, slots)
            once = {slot: value for slot, value in attributes.items() if _index(slot) >= 0}
            special = {slot: value for slot, value in attributes.items() if slot not in once}
            updates.append(Update(key, Change({"task_path": task_path, **special, **stamp()}, defaults=once)))
        return updates

    async def checkpoint_tuple(
        self, serde: SerializerProtocol, has_channel: HasChannel, thread_id: str, stored: StoredCheckpoint
    ) -> CheckpointTuple:
        """Load a checkpoint with its pending writes.

        Raises UnrestorableState if `serde` cannot restore a value of a channel for which `has_channel` is True.
        """
        state = (await self._payloads.of(stored.item))["state"]
        ns, checkpoint_id, _ = stored.place
        try:
            checkpoint, metadata = serde.loads_typed(state.serialized)
        except UnrestorableState:
            checkpoint, metadata = serde.loads_typed(of_channels(state.serialized, partial(has_channel, ns)))
        parent = stored.item.get("parent")
        return CheckpointTuple(
            config=config_of(thread_id, ns, checkpoint_id),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=config_of(thread_id, ns, parent) if parent else None,
            pending_writes=await self._pending(serde, has_channel, stored),
        )

    async def _pending(
        self, serde: SerializerProtocol, has_channel: HasChannel, stored: StoredCheckpoint
    ) -> list[PendingWrite]:
        """Load the pending writes from their items, in the order in which LangGraph applies them."""
        found: list[tuple[tuple[str, str, int], PendingWrite]] = []
        for item in stored.writes:
            task_id = keys.checkpoint_of(item[SORT]).task_id
            for slot, payload in (await self._payloads.of(item)).items():
                order = writes_sort_key(item["task_path"], task_id, _index(slot))
                try:
                    value = serde.loads_typed(payload.serialized)
                except UnrestorableState:
                    if has_channel(stored.place.ns, payload.channel):
                        raise
                    value = None  # LangGraph ignores writes to other channels.
                found.append((order, (task_id, payload.channel, value)))
        return [write for _, write in sorted(found, key=itemgetter(0))]


def _slot(index: int) -> str:
    """Return the attribute name for the write with this index: w0 for 0, or s1 for -1 (a special channel)."""
    return f"w{index}" if index >= 0 else f"s{-index}"


def _index(slot: str) -> int:
    return int(slot[1:]) if slot[0] == "w" else -int(slot[1:])
