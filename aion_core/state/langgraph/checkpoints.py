"""LangGraph's checkpointer over the table.

Each request of a super-step checks the fence (fencing token) of the CONTEXT:

    aput_writes   update THREAD/CHECKPOINT#…#<task>    all writes of a LangGraph task at its end, in one request
    aput          put THREAD/CHECKPOINT#…              the whole state at the end of the step

A reader must never see only some writes of a LangGraph task: LangGraph regards a task with one write as finished.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import timedelta
from operator import itemgetter
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import PULL
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)

from aion_core.clock import Clock
from aion_core.engine.fenced_writes import Fence, FencedWrites
from aion_core.errors import StoreCorrupt
from aion_core.state.langgraph.before_write import BeforePut, BeforeWrite, running_loop
from aion_core.state.langgraph.serializer import StoredType, serializer
from aion_core.state.langgraph.threads import StoredCheckpoint, ThreadItems
from aion_core.state.renewal import renew
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import SORT, Item, key_of
from aion_core.table.payloads import Payloads, StoredPayload
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.schema import THREADS, TTL_ATTRIBUTE
from aion_core.table.ttl import Ttl
from aion_core.table.writes import Change, Delete, Put, Update, Write

WRITES_A_PAGE = 100
"""Number of writes in one item, since an update expression may have 4 KB. More writes need more items."""

DELETES_AT_ONCE = 50
"""Number of deletes in one transaction. It is limited, because the items of a transaction may have at most 4 MB."""

T = TypeVar("T")
Writes = list[PendingWrite]


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
        before_put: BeforePut | None = None,
        retention: timedelta = timedelta(days=30),
        types: Iterable[StoredType] = (),
        skips_input: bool = False,
    ) -> None:
        """Check the fence with each write, if a fence is given. A checkpoint expires some time after its task.

        `before_put` is awaited before each write. `types` lists the agent author's own classes in checkpoints. With
        `skips_input`, the checkpoint of a graph's input is not stored, because the next checkpoint contains the input
        and no node runs before.
        """
        # Do not call LangGraph's initializer, because it only checks that the serializer has its methods.
        self.serde = serializer(frozenset(types))
        self._skips_input = skips_input
        self._input_id, self._before_input = "", ""
        """Id of the skipped checkpoint of the graph's input, and of the checkpoint before it; empty without one."""
        self._held_id, self._held = "", list[Write]()
        """Id of the checkpoint before a one-task step, and the later writes that wait for the next transaction."""
        self._fenced = fence is not None
        self._newest: tuple[str, str, StoredCheckpoint | None] | None = None
        """Thread, namespace and newest checkpoint of the last read. Under the fence, only this turn can change it."""
        self._thread_items, self._ttl = ThreadItems(Reads(table, clock)), Ttl(clock, retention)
        # Give all items of a turn the same TTL, because a DeltaChannel's value depends on the checkpoints before. It is
        # fixed by the first write or the first read of a history. Later it may only become earlier.
        self._expires = self._ttl.state_end() if fence is not None else None
        self._is_fixed = False
        self._bases: dict[str, StoredCheckpoint] = {}
        """Last checkpoint that this turn has read, by namespace, unless it has also read the checkpoint's history."""
        self._blobs, self._payloads, self._log_first = blobs, Payloads(blobs), BeforeWrite(before_put)
        self._writes = FencedWrites(table, fence)
        self._commit = self._writes.commit
        # Serialise writes: parallel branches end together, and two transactions on one CONTEXT item conflict in
        # DynamoDB. The lock is fair, so a subgraph's interrupt is stored before the interrupt of its parent node.
        self._write_lock = asyncio.Lock()

    # ── Writes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with the graph's whole state. Return the config of the checkpoint."""
        thread_id, ns, parent = _place(config)
        if self._skips_input and metadata.get("source") == "input" and not ns:
            self._input_id, self._before_input = checkpoint["id"], parent or ""
            return _config(thread_id, ns, checkpoint["id"])
        packed = self._pack([checkpoint, get_checkpoint_metadata(config, metadata)])
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
        packed = self._pack([checkpoint, get_checkpoint_metadata(config, metadata)])
        self._log_first.blocking()
        return _finished(self._put(config, checkpoint["id"], packed, metadata))

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
        packed = self._pack_writes(writes)
        await self._log_first()
        async with self._write_lock:
            joins = get_checkpoint_id(config) == self._held_id and task_path.startswith(_NODE_PATH)
            is_result = all(index >= 0 for index in packed)
            await self._put_writes(config, packed, task_id, task_path, holds=joins and is_result)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `aput_writes`."""
        packed = self._pack_writes(writes)
        self._log_first.blocking()
        _finished(self._put_writes(config, packed, task_id, task_path))

    async def renew(self, config: RunnableConfig) -> None:
        """Renew the graph's newest checkpoint and all later items of its thread, if they could expire before their task.

        The later items are the writes of its step and the checkpoints of subgraphs.
        """
        newest = await self._found(config)
        if newest is not None and newest.item[TTL_ATTRIBUTE] < self._ttl.state_end(0.5):
            await self._renew(config["configurable"]["thread_id"], newest.place.checkpoint_id, self._ttl.state_end())

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

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints, oldest first: if this is interrupted, the newest state stays readable."""
        pages = self._thread_items.pages(thread_id, keys.namespace_sort(None), keys_only=True)
        found = [Delete(key_of(item)) async for page in pages for item in page]
        for start in range(0, len(found), DELETES_AT_ONCE):
            await self._commit(*found[start : start + DELETES_AT_ONCE])

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        _finished(self.adelete_thread(thread_id))

    # ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, by default the thread's newest; None if it is missing."""
        found = await self._found(config)
        if found is None:
            return None
        if self._fenced:
            self._bases[found.place.ns] = found
        return await self._tuple(config["configurable"]["thread_id"], found)

    async def is_empty(self, config: RunnableConfig) -> bool:
        """Return True if `aget_tuple` finds no checkpoint for this config."""
        return await self._found(config) is None

    async def _found(self, config: RunnableConfig) -> StoredCheckpoint | None:
        thread_id, ns, checkpoint_id = _place(config)
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
        return _finished(self.aget_tuple(config))

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
        thread_id, _, checkpoint_id = _place(config)
        ns: str | None = config["configurable"].get("checkpoint_ns")
        end = get_checkpoint_id(before) if before else None
        last = keys.checkpoint_sort(ns, end) if end is not None and ns is not None else None
        found = self._thread_items.newest_first(thread_id, keys.namespace_sort(ns), last)
        if ns is None:
            found = _by_age(found)
        async with aclosing(found):
            while limit is None or limit > 0:
                stored = await anext(found, None)
                if stored is None:
                    return
                this = stored.place.checkpoint_id
                if checkpoint_id not in (None, this) or (end is not None and this >= end):
                    continue
                listed = await self._tuple(thread_id, stored)
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
        return iter(_finished(_all(self.alist(config, filter=filter, before=before, limit=limit))))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return each channel's newest stored value before the checkpoint, and the writes to the channel since then.

        A turn also renews the checkpoints with this history, so that they do not expire before the turn's checkpoints.
        Raises StoreCorrupt if a part of the history has expired, because a shorter history would give another state.
        """
        thread_id, ns, target = _place(config)
        wanted = target
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        last = keys.checkpoint_sort(ns, target) if target else None
        read: list[Item] = []
        async with aclosing(self._thread_items.newest_first(thread_id, keys.namespace_sort(ns), last)) as found:
            async for stored in found:
                this = stored.place.checkpoint_id
                if wanted not in (None, this):
                    continue  # Skip a checkpoint that is no ancestor of the given one.
                read += (*stored.writes, stored.item)
                ancestor = await self._tuple(thread_id, stored)
                if target not in (None, this):
                    _add(history, ancestor)
                target = target or this
                wanted = get_checkpoint_id(ancestor.parent_config) if ancestor.parent_config else None
                if wanted is None or all("seed" in each for each in history.values()):
                    wanted = None
                    break
        if wanted is not None:
            raise StoreCorrupt("A part of the thread's history is missing.")
        if target is not None and self._expires is not None:
            self._bases.pop(ns, None)
            self._expires = await self._kept(thread_id, target, read, self._expires)
        return history

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

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `aget_delta_channel_history`."""
        return _finished(self.aget_delta_channel_history(config=config, channels=channels))

    # ── Items ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _put(
        self, config: RunnableConfig, checkpoint_id: str, state: StoredPayload, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        thread_id, ns, parent = _place(config)
        parent = self._before_input if parent and parent == self._input_id else parent
        base = self._bases.pop(ns, None)
        if base is not None and base.place.checkpoint_id == parent and metadata.get(_COUNTERS) and self._expires:
            # The base has the whole values of DeltaChannels, so LangGraph has not asked for their history.
            self._expires = await self._kept(thread_id, parent, [*base.writes, base.item], self._expires)
        attributes = await self._attributes(thread_id, {"state": state})
        if parent:
            attributes["parent"] = parent
        item = {**attributes, **self._ttl_attributes()}
        put = Put(keys.checkpoint_key(thread_id, ns, checkpoint_id), item)
        # Record progress of the turn only for the source `loop`: checkpoints of other sources store an input or update.
        await self._write([put], ends_step=metadata.get("source") == "loop")
        return _config(thread_id, ns, checkpoint_id)

    async def _put_writes(
        self,
        config: RunnableConfig,
        writes: Mapping[int, StoredPayload],
        task_id: str,
        task_path: str,
        *,
        holds: bool = False,
    ) -> None:
        thread_id, ns, _ = _place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        pages: dict[int, dict[str, StoredPayload]] = {}
        for index, write in writes.items():
            pages.setdefault(max(index, 0) // WRITES_A_PAGE, {})[_slot(index)] = write
        changes = []
        for page, slots in pages.items():
            key = keys.writes_key(thread_id, ns, checkpoint_id, task_id, page)
            attributes = await self._attributes(thread_id, slots)
            once = {slot: value for slot, value in attributes.items() if _index(slot) >= 0}
            special = {slot: value for slot, value in attributes.items() if slot not in once}
            change = Change({"task_path": task_path, **special, **self._ttl_attributes()}, defaults=once)
            changes.append(Update(key, change))
        await self._write(changes, holds=holds and len(changes) == 1)

    async def _write(self, writes: Sequence[Write], *, holds: bool = False, ends_step: bool = False) -> None:
        """Make these writes and the earlier held ones in one transaction. With `holds`, hold them for the next call."""
        self._newest = None
        self._held += writes
        if not holds:
            held, self._held = self._held, []
            await (self._writes.commit_step if ends_step else self._commit)(*held)

    async def _tuple(self, thread_id: str, stored: StoredCheckpoint) -> CheckpointTuple:
        state = (await self._payloads.of(stored.item))["state"]
        checkpoint, metadata = self.serde.loads_typed(state.serialized)
        ns, checkpoint_id, _ = stored.place
        parent = stored.item.get("parent")
        return CheckpointTuple(
            config=_config(thread_id, ns, checkpoint_id),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=_config(thread_id, ns, parent) if parent else None,
            pending_writes=await self._pending(stored.writes),
        )

    async def _pending(self, writes: Iterable[Item]) -> Writes:
        """Load the pending writes from their items, in the order in which LangGraph applies them."""
        found: list[tuple[tuple[str, str, int], PendingWrite]] = []
        for item in writes:
            task_id = keys.checkpoint_of(item[SORT]).task_id
            for slot, payload in (await self._payloads.of(item)).items():
                order = writes_sort_key(item["task_path"], task_id, _index(slot))
                found.append((order, (task_id, payload.channel, self.serde.loads_typed(payload.serialized))))
        return [write for _, write in sorted(found, key=itemgetter(0))]

    def _pack(self, value: Any, channel: str = "") -> StoredPayload:
        return StoredPayload.of(self.serde.dumps_typed(value), channel)

    def _pack_writes(self, writes: Sequence[tuple[str, Any]]) -> Mapping[int, StoredPayload]:
        # Keep one write per index, because an update expression may set an attribute only once. For a special channel,
        # the last write is valid.
        return {
            WRITES_IDX_MAP.get(channel, index): self._pack(value, channel)
            for index, (channel, value) in enumerate(writes)
        }

    def _ttl_attributes(self) -> Item:
        self._is_fixed = True
        return self._ttl.attributes(self._expires or self._ttl.state_end())

    async def _attributes(self, thread_id: str, payloads: Mapping[str, StoredPayload]) -> Item:
        return await self._payloads.attributes(payloads, folder=f"{THREADS}/{thread_id}")


_COUNTERS = "counters_since_delta_snapshot"
"""Key in the metadata of a checkpoint that lacks the whole value of a DeltaChannel."""

_NODE_PATH = f"~{PULL},"
"""Start of the `task_path` of a LangGraph task that an edge of the graph has triggered, unlike a `Send`."""


def _place(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Read the thread_id, checkpoint_ns and checkpoint_id from a LangGraph config."""
    named = config["configurable"]
    return named["thread_id"], named.get("checkpoint_ns", ""), get_checkpoint_id(config)


def _config(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def _slot(index: int) -> str:
    """Return the attribute name for the write with this index: w0 for 0, or s1 for -1 (a special channel)."""
    return f"w{index}" if index >= 0 else f"s{-index}"


def _index(slot: str) -> int:
    return int(slot[1:]) if slot[0] == "w" else -int(slot[1:])


def _add(history: Mapping[str, DeltaChannelHistory], ancestor: CheckpointTuple) -> None:
    """Add the ancestor checkpoint's writes and value to the history of each channel that has no value yet."""
    values = ancestor.checkpoint["channel_values"]
    for channel, known in history.items():
        if "seed" not in known:
            known["writes"][:0] = [write for write in ancestor.pending_writes or () if write[1] == channel]
            if channel in values:
                known["seed"] = values[channel]


async def _by_age(found: AsyncGenerator[StoredCheckpoint, None]) -> AsyncGenerator[StoredCheckpoint, None]:
    """Yield the checkpoints of all namespaces sorted by age, newest first."""
    for stored in sorted(await _all(found), key=lambda stored: stored.place.checkpoint_id, reverse=True):
        yield stored


async def _all(found: AsyncIterator[T]) -> Sequence[T]:
    return [each async for each in found]


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a new event loop and return its result. Use a new thread if this one has a running loop."""
    if running_loop() is None:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()
