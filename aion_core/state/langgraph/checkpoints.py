"""LangGraph's checkpointer over the table.

Each request of a super-step checks the fence (fencing token) of the CONTEXT:

    aput_writes   update THREAD/CHECKPOINT#…#<task>    all writes of a LangGraph task at its end, in one request
    aput          put THREAD/CHECKPOINT#…              the whole state at the end of the step

A reader must never see only some writes of a LangGraph task: LangGraph regards a task with one write as finished.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import PULL
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from aion_core.clock import Clock
from aion_core.engine.fenced_writes import Fence, FencedWrites
from aion_core.state.langgraph.checkpoint_items import (
    CheckpointItems,
    HasChannel,
    PackedWrites,
    config_of,
    place_of,
)
from aion_core.state.langgraph.checkpoint_ttls import CheckpointTtls
from aion_core.state.langgraph.copies import copy_of
from aion_core.state.langgraph.delta_history import read_history
from aion_core.state.langgraph.event_loops import finished
from aion_core.state.langgraph.log_first import LogFirst
from aion_core.state.langgraph.serializer import StoredType, serializer
from aion_core.state.langgraph.thread_items import StoredCheckpoint, ThreadItems, by_age
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import Item, key_of
from aion_core.table.payloads import StoredPayload
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.stamp import stamp
from aion_core.table.ttl import Ttl
from aion_core.table.writes import Delete, Put, Write

DELETES_AT_ONCE = 50
"""Number of deletes in one transaction. It is limited, because the items of a transaction may have at most 4 MB."""

_NODE_PATH = f"~{PULL},"
"""Start of the `task_path` of a LangGraph task that an edge of the graph has triggered, unlike a `Send`."""


def _has_any(ns: str, channel: str) -> bool:
    """Return True, because the channels of the graph are unknown."""
    return True


class TableSaver(BaseCheckpointSaver[int]):
    """LangGraph's checkpointer for one turn.

    Every method may raise StoreUnavailable. If another holder has the context, a write stores nothing and raises
    LeaseLost. Expired items are not returned.
    """

    def __init__(
        self,
        table: Table,
        blobs: Blobs,
        clock: Clock,
        *,
        fence: Fence | None = None,
        owner: str = "",
        log_first: Callable[[], Awaitable[None]] | None = None,
        retention: timedelta = timedelta(days=30),
        types: Iterable[StoredType] = (),
        has_channel: HasChannel = _has_any,
        skips_input: bool = False,
    ) -> None:
        """Check the fence with each write, if a fence is given. A checkpoint expires some time after its task.

        `owner` is the owner of the written items, if there is no fence to name it.
        `log_first` is awaited before each write. `types` lists the agent author's own classes in checkpoints. With a
        fence, a read raises UnrestorableState if an object of a class that the writer has listed cannot be restored, and
        `has_channel` is True for its channel. Without a fence, the object becomes plain data. With `skips_input`, the
        checkpoint of a graph's input is not stored, because the next checkpoint contains the input and no node runs
        before.
        """
        # Do not call LangGraph's initializer, because it only checks that the serializer has its methods.
        self.serde = serializer(frozenset(types), strict=fence is not None)
        self._skips_input = skips_input
        self._input_id, self._before_input = "", ""
        """Id of the skipped checkpoint of the graph's input, and of the checkpoint before it; empty without one."""
        self._held_id, self._held = "", list[Write]()
        """Id of the checkpoint before a one-task step, and the later writes that wait for the next transaction."""
        self._fenced = fence is not None
        self._newest: tuple[str, str, StoredCheckpoint | None] | None = None
        """Thread, namespace and newest checkpoint of the last read. Under the fence, only this turn can change it."""
        self._has_channel = has_channel
        self._loaded: tuple[StoredCheckpoint, CheckpointTuple] | None = None
        """Last loaded checkpoint. A turn reads its first one twice: for its own use, and when LangGraph starts."""
        self._owner = fence.context.owner if fence is not None else owner
        """Owner of the items; "" for a saver that only reads."""
        self._thread_items, self._items = ThreadItems(Reads(table, clock)), CheckpointItems(blobs, self._owner)
        self._log_first = LogFirst(log_first)
        self._writes = FencedWrites(table, fence)
        self._commit = self._writes.commit
        ttl = Ttl(clock, retention)
        self._ttls = CheckpointTtls(self._thread_items, self._writes, blobs, ttl, in_turn=self._fenced)
        # Serialise writes: parallel branches end together, and two transactions on one CONTEXT item conflict in
        # DynamoDB. The lock is fair, so a subgraph's interrupt is stored before the interrupt of its parent node.
        self._write_lock = asyncio.Lock()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with the graph's whole state. Return the config of the checkpoint."""
        thread_id, ns, parent = place_of(config)
        if self._skips_input and metadata.get("source") == "input" and not ns:
            self._input_id, self._before_input = checkpoint["id"], parent or ""
            return config_of(thread_id, ns, checkpoint["id"])
        packed = self._items.pack(self.serde, [checkpoint, get_checkpoint_metadata(config, metadata)])
        await self._log_first()
        async with self._write_lock:
            return await self._put(config, checkpoint["id"], packed, metadata)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `aput`."""
        packed = self._items.pack(self.serde, [checkpoint, get_checkpoint_metadata(config, metadata)])
        self._log_first.blocking()
        return finished(self._put(config, checkpoint["id"], packed, metadata))

    def join_step(self, checkpoint_id: str) -> None:
        """Store the writes of the step after this checkpoint in one transaction with the next checkpoint.

        The step must belong to the graph itself, not to a subgraph, and have only one LangGraph task. Otherwise another
        task could write between the step and the checkpoint.
        """
        self._held_id = checkpoint_id

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a LangGraph task in one transaction. A repeat changes only writes to special channels.

        Two kinds of writes never wait for the next checkpoint (`join_step`). After a write to a special channel, such
        as an interrupt, no checkpoint follows. And a node may run for long after the writes of a task that it called.
        """
        if self._input_id and get_checkpoint_id(config) == self._input_id:
            return  # Skip the writes of the node START, because the next checkpoint contains the input.
        packed = self._items.pack_writes(self.serde, writes)
        await self._log_first()
        async with self._write_lock:
            joins = get_checkpoint_id(config) == self._held_id and task_path.startswith(_NODE_PATH)
            is_result = all(index >= 0 for index in packed)
            await self._put_writes(config, packed, task_id, task_path, holds=joins and is_result)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `aput_writes`."""
        packed = self._items.pack_writes(self.serde, writes)
        self._log_first.blocking()
        finished(self._put_writes(config, packed, task_id, task_path))

    async def renew(self, config: RunnableConfig) -> None:
        """Renew the graph's newest checkpoint and all later items of its thread, if they could expire before their task.

        The later items are the writes of its step and the checkpoints of subgraphs.
        """
        newest = await self._found(config)
        if newest is not None:
            await self._ttls.renew_newest(config["configurable"]["thread_id"], newest)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints, oldest first: if this is interrupted, the newest state stays readable."""
        pages = self._thread_items.pages(thread_id, keys.namespace_sort(None), keys_only=True)
        found = [Delete(key_of(item)) async for page in pages for item in page]
        for start in range(0, len(found), DELETES_AT_ONCE):
            await self._commit(*found[start : start + DELETES_AT_ONCE])

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        finished(self.adelete_thread(thread_id))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, by default the thread's newest; None if it is missing."""
        found = await self._found(config)
        if found is None:
            return None
        if self._fenced:
            self._ttls.note_read(found)
        if self._loaded is not None and self._loaded[0] is found and (copy := copy_of(self._loaded[1])) is not None:
            self._loaded = None  # the nodes may change what LangGraph reads, so no third reader gets it
            return copy
        loaded = await self._items.checkpoint_tuple(
            self.serde, self._has_channel, config["configurable"]["thread_id"], found
        )
        self._loaded = found, loaded
        return loaded

    async def is_empty(self, config: RunnableConfig) -> bool:
        """Return True if `aget_tuple` finds no checkpoint for this config."""
        return await self._found(config) is None

    async def _found(self, config: RunnableConfig) -> StoredCheckpoint | None:
        thread_id, ns, checkpoint_id = place_of(config)
        if checkpoint_id is None and self._newest is not None and self._newest[:2] == (thread_id, ns):
            return self._newest[2]
        newest = None
        async with aclosing(
            self._thread_items.newest_first(thread_id, keys.checkpoint_sort(ns, checkpoint_id or ""))
        ) as stored:
            async for each in stored:
                if checkpoint_id in (None, each.place.checkpoint_id):
                    newest = each
                    break
        if checkpoint_id is None and self._fenced:
            self._newest = thread_id, ns, newest
        return newest

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`. A synchronous graph calls this method first, and must run in a separate thread."""
        self._log_first.check_thread()
        return finished(self.aget_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's parameter
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the thread's checkpoints, newest first. Without a checkpoint_ns in the config, include all namespaces.

        `filter` requires these values in a checkpoint's metadata. `config` must have a thread_id.
        """
        if config is None:
            raise NotImplementedError("Checkpoints are listed by thread: the config must have a thread_id.")
        thread_id, _, checkpoint_id = place_of(config)
        ns: str | None = config["configurable"].get("checkpoint_ns")
        end = get_checkpoint_id(before) if before else None
        last = keys.checkpoint_sort(ns, end) if end is not None and ns is not None else None
        found = self._thread_items.newest_first(thread_id, keys.namespace_sort(ns), last)
        if ns is None:
            found = by_age(found)
        async with aclosing(found):
            while limit is None or limit > 0:
                stored = await anext(found, None)
                if stored is None:
                    return
                this = stored.place.checkpoint_id
                if checkpoint_id not in (None, this) or (end is not None and this >= end):
                    continue
                listed = await self._items.checkpoint_tuple(self.serde, self._has_channel, thread_id, stored)
                metadata = cast("dict[str, Any]", listed.metadata)
                if all(metadata.get(key) == value for key, value in (filter or {}).items()):
                    limit = None if limit is None else limit - 1
                    yield listed

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's parameter
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """See `alist`."""
        return iter(finished(_listed(self.alist(config, filter=filter, before=before, limit=limit))))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return each channel's newest stored value before the checkpoint, and the writes to the channel since then.

        A turn also renews the checkpoints with this history, so that they do not expire before the turn's checkpoints.
        Raises StoreCorrupt if a part of the history has expired, because a shorter history would give another state.
        """
        thread_id, ns, target = place_of(config)
        last = keys.checkpoint_sort(ns, target) if target else None
        load = partial(self._items.checkpoint_tuple, self.serde, lambda ns, channel: channel in channels, thread_id)
        async with aclosing(self._thread_items.newest_first(thread_id, keys.namespace_sort(ns), last)) as found:
            history = await read_history(found, target, channels, load)
        await self._ttls.keep_history(thread_id, ns, history)
        return history.channels

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `aget_delta_channel_history`."""
        return finished(self.aget_delta_channel_history(config=config, channels=channels))

    async def _put(
        self, config: RunnableConfig, checkpoint_id: str, state: StoredPayload, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        thread_id, ns, parent = place_of(config)
        parent = self._before_input if parent and parent == self._input_id else parent
        await self._ttls.keep_base(thread_id, ns, parent, metadata)
        attributes = await self._items.attributes(thread_id, {"state": state})
        if parent:
            attributes["parent"] = parent
        item = {**attributes, **self._stamp()}
        put = Put(keys.checkpoint_key(thread_id, ns, checkpoint_id), item)
        # Record progress of the turn only for the source `loop`: checkpoints of other sources store an input or update.
        await self._write([put], ends_step=metadata.get("source") == "loop")
        return config_of(thread_id, ns, checkpoint_id)

    async def _put_writes(
        self,
        config: RunnableConfig,
        writes: PackedWrites,
        task_id: str,
        task_path: str,
        *,
        holds: bool = False,
    ) -> None:
        updates = await self._items.updates(config, writes, task_id, task_path, self._stamp)
        await self._write(updates, holds=holds and len(updates) == 1)

    def _stamp(self) -> Item:
        return stamp(self._owner, self._ttls.of_new_item())

    async def _write(self, writes: Sequence[Write], *, holds: bool = False, ends_step: bool = False) -> None:
        """Make these writes and the earlier held ones in one transaction. With `holds`, hold them for the next call."""
        self._newest = None
        self._held += writes
        if not holds:
            held, self._held = self._held, []
            await (self._writes.commit_step if ends_step else self._commit)(*held)


async def _listed(found: AsyncIterator[CheckpointTuple]) -> Sequence[CheckpointTuple]:
    return [each async for each in found]
