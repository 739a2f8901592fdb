"""History of DeltaChannels: the newest stored value before a checkpoint, and the writes since then."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, get_checkpoint_id
from msgspec import Struct

from aion_core.errors import StoreCorrupt
from aion_core.state.langgraph.thread_items import StoredCheckpoint
from aion_core.table.item import Item


class DeltaHistory(Struct, frozen=True):
    """History of some channels, with the items that hold it."""

    channels: Mapping[str, DeltaChannelHistory]
    checkpoint_id: str | None
    """Checkpoint after this history; None for a thread without checkpoints."""
    items: Sequence[Item]


async def read_history(
    found: AsyncIterator[StoredCheckpoint],
    target: str | None,
    channels: Sequence[str],
    load: Callable[[StoredCheckpoint], Awaitable[CheckpointTuple]],
) -> DeltaHistory:
    """Return the channels' history before the checkpoint `target`, by default the newest one.

    `found` has the checkpoints of the namespace, newest first. Raises StoreCorrupt if a part of the history is missing,
    because a shorter history would give another state.
    """
    wanted = target
    history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
    read: list[Item] = []
    async for stored in found:
        this = stored.place.checkpoint_id
        if wanted not in (None, this):
            continue  # Skip a checkpoint that is no ancestor of the given one.
        read += (*stored.writes, stored.item)
        ancestor = await load(stored)
        if target not in (None, this):
            _add(history, ancestor)
        target = target or this
        wanted = get_checkpoint_id(ancestor.parent_config) if ancestor.parent_config else None
        if wanted is None or all("seed" in each for each in history.values()):
            wanted = None
            break
    if wanted is not None:
        raise StoreCorrupt("A part of the thread's history is missing.")
    return DeltaHistory(history, target, read)


def _add(history: Mapping[str, DeltaChannelHistory], ancestor: CheckpointTuple) -> None:
    """Add the ancestor checkpoint's writes and value to the history of each channel that has no value yet."""
    values = ancestor.checkpoint["channel_values"]
    for channel, known in history.items():
        if "seed" not in known:
            known["writes"][:0] = [write for write in ancestor.pending_writes or () if write[1] == channel]
            if channel in values:
                known["seed"] = values[channel]
