"""LangGraph's checkpointer on DynamoDB.

A super-step's time line, a line a request; each first checks that the CONTEXT's fence is still the holder's:

    aput_writes   fill THREAD/CHECKPOINT#…#<task>    a task has ended: all it wrote, in one request
    aput          put THREAD/CHECKPOINT#…            the step is closed: the whole state

A task's writes must never be readable in part: LangGraph takes a task for finished as soon as one of them is.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from datetime import timedelta
from operator import itemgetter
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
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

from aion_core.aws import items, keys
from aion_core.aws.client import Calls
from aion_core.aws.items import Item
from aion_core.aws.payloads import Payload, Payloads
from aion_core.aws.threads import StoredCheckpoint, Threads
from aion_core.checkpointing.serializer import StoredType, serializer
from aion_core.checkpointing.turn import BeforePut, Fence, LogFirst, running_loop
from aion_core.errors import StoreCorrupt
from aion_core.ports import Blobs, Clock
from aion_core.ports.schema import THREADS

WRITES_A_PAGE = 100
"""How many writes of a task one item takes: an update expression may be 4 KB long. More are more items, at once."""

T = TypeVar("T")
Writes = list[PendingWrite]


class DynamoDBSaver(BaseCheckpointSaver[int]):
    """LangGraph's checkpointer for one turn, in one table.

    Every method may raise StoreUnavailable, and every write LeaseLost: another holder has the context then, and
    nothing was written. An item that has expired is not there.
    """

    def __init__(
        self,
        dynamodb: Calls,
        blobs: Blobs,
        clock: Clock,
        *,
        table: str,
        fence: Fence | None = None,
        before_put: BeforePut | None = None,
        retention: timedelta = timedelta(days=30),
        types: Iterable[StoredType] = (),
    ) -> None:
        """Without a fence, nobody is kept from writing; a checkpoint is kept for `retention` after it was written.

        `before_put` is awaited before each write. `types` are the author's own classes that checkpoints may hold.
        """
        super().__init__(serde=serializer(types))
        self._threads = Threads(dynamodb, clock, table=table, fence=fence, retention=retention)
        self._payloads, self._log_first = Payloads(blobs), LogFirst(before_put)
        # Parallel branches end together, and to DynamoDB two transactions that check one CONTEXT are a conflict. In the
        # order asked for: a subgraph's question is to be stored before that of the node which the subgraph is.
        self._one_at_a_time = asyncio.Lock()

    # ── The writes ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store the whole state, to be found by the config that is returned."""
        packed = self._pack([checkpoint, get_checkpoint_metadata(config, metadata)])
        await self._log_first()
        async with self._one_at_a_time:
            return await self._put(config, checkpoint["id"], packed)

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
        return _finished(self._put(config, checkpoint["id"], packed))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, all of it or nothing; a write that is there already stays as it is."""
        packed = self._pack_writes(writes)
        await self._log_first()
        async with self._one_at_a_time:
            await self._put_writes(config, packed, task_id, task_path)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `aput_writes`."""
        packed = self._pack_writes(writes)
        self._log_first.blocking()
        _finished(self._put_writes(config, packed, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints, oldest first."""
        await self._threads.delete(thread_id)

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        _finished(self.adelete_thread(thread_id))

    # ── The reads ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or its thread's newest; None where there is none."""
        thread_id, ns, checkpoint_id = _place(config)
        first = keys.checkpoint_sort(ns, checkpoint_id or "")
        async with aclosing(self._threads.newest_first(thread_id, first)) as found:
            async for stored in found:
                if checkpoint_id in (None, stored.place.checkpoint_id):
                    return await self._tuple(thread_id, stored)
        return None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`; a synchronous graph begins with it, in the thread that runs it."""
        self._log_first.check_thread()
        return _finished(self.aget_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the thread's checkpoints, newest first; of every checkpoint_ns where the config names none.

        `filter` is what their metadata must hold. A config is needed: threads are not listed.
        """
        if config is None:
            raise NotImplementedError("Checkpoints are listed by thread: the config must name one.")
        thread_id, _, checkpoint_id = _place(config)
        ns: str | None = config["configurable"].get("checkpoint_ns")
        end = get_checkpoint_id(before) if before else None
        last = keys.checkpoint_sort(ns, end) if end is not None and ns is not None else None
        found = self._threads.newest_first(thread_id, keys.namespace_sort(ns), last)
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
        filter: dict[str, Any] | None = None,  # noqa: A002  # LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """See `alist`."""
        return iter(_finished(_all(self.alist(config, filter=filter, before=before, limit=limit))))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what each channel is rebuilt from: the writes up to the checkpoint, after the newest stored value.

        Raises StoreCorrupt where some of them have expired: a shorter history would be another state.
        """
        thread_id, ns, target = _place(config)
        wanted = target
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        last = keys.checkpoint_sort(ns, target) if target else None
        async with aclosing(self._threads.newest_first(thread_id, keys.namespace_sort(ns), last)) as found:
            async for stored in found:
                this = stored.place.checkpoint_id
                if wanted not in (None, this):
                    continue  # of another branch
                ancestor = await self._tuple(thread_id, stored)
                if target not in (None, this):
                    _add(history, ancestor)
                target = target or this
                wanted = get_checkpoint_id(ancestor.parent_config) if ancestor.parent_config else None
                if wanted is None or all("seed" in each for each in history.values()):
                    return history
        if wanted is not None:
            raise StoreCorrupt("A part of the thread's history is missing.")
        return history

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `aget_delta_channel_history`."""
        return _finished(self.aget_delta_channel_history(config=config, channels=channels))

    # ── Items ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _put(self, config: RunnableConfig, checkpoint_id: str, state: Payload) -> RunnableConfig:
        thread_id, ns, parent = _place(config)
        attributes = await self._attributes(thread_id, {"state": state})
        if parent:
            attributes["parent"] = items.text(parent)
        await self._threads.commit(self._threads.put(keys.checkpoint_key(thread_id, ns, checkpoint_id), attributes))
        return _config(thread_id, ns, checkpoint_id)

    async def _put_writes(
        self, config: RunnableConfig, writes: Mapping[int, Payload], task_id: str, task_path: str
    ) -> None:
        thread_id, ns, _ = _place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        pages: dict[int, dict[str, Payload]] = {}
        for index, write in writes.items():
            pages.setdefault(max(index, 0) // WRITES_A_PAGE, {})[_slot(index)] = write
        changes = []
        for page, slots in pages.items():
            key = keys.writes_key(thread_id, ns, checkpoint_id, task_id, page)
            attributes = {"task_path": items.text(task_path), **await self._attributes(thread_id, slots)}
            changes.append(self._threads.fill(key, attributes, only_once=frozenset(filter(_is_ordinary, slots))))
        await self._threads.commit(*changes)

    async def _tuple(self, thread_id: str, stored: StoredCheckpoint) -> CheckpointTuple:
        state = (await self._payloads.of(stored.item))["state"]
        checkpoint, metadata = self.serde.loads_typed(state.serialized)
        ns, checkpoint_id, _ = stored.place
        parent = stored.item.get("parent")
        return CheckpointTuple(
            config=_config(thread_id, ns, checkpoint_id),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=_config(thread_id, ns, parent["S"]) if parent else None,
            pending_writes=await self._pending(stored.writes),
        )

    async def _pending(self, writes: Iterable[Item]) -> Writes:
        """Return the writes in the order in which LangGraph applies them."""
        found: list[tuple[tuple[str, str, int], PendingWrite]] = []
        for item in writes:
            task_id = keys.checkpoint_of(item["sk"]["S"]).task_id
            for slot, payload in (await self._payloads.of(item)).items():
                order = writes_sort_key(item["task_path"]["S"], task_id, _index(slot))
                found.append((order, (task_id, payload.channel, self.serde.loads_typed(payload.serialized))))
        return [write for _, write in sorted(found, key=itemgetter(0))]

    def _pack(self, value: Any, channel: str = "") -> Payload:
        return Payload.of(self.serde.dumps_typed(value), channel)

    def _pack_writes(self, writes: Sequence[tuple[str, Any]]) -> Mapping[int, Payload]:
        # By index: of two writes to one special channel the last counts, and an expression may set it only once.
        return {
            WRITES_IDX_MAP.get(channel, index): self._pack(value, channel)
            for index, (channel, value) in enumerate(writes)
        }

    async def _attributes(self, thread_id: str, payloads: Mapping[str, Payload]) -> Item:
        return await self._payloads.attributes(payloads, folder=f"{THREADS}/{thread_id}")


def _place(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Return the thread_id, checkpoint_ns and checkpoint_id that the config names."""
    named = config["configurable"]
    return named["thread_id"], named.get("checkpoint_ns", ""), get_checkpoint_id(config)


def _config(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def _slot(index: int) -> str:
    """Return the attribute of the write with this index: w0, w1, and s1 for -1, which is a special channel's."""
    return f"w{index}" if index >= 0 else f"s{-index}"


def _index(slot: str) -> int:
    return int(slot[1:]) if _is_ordinary(slot) else -int(slot[1:])


def _is_ordinary(name: str) -> bool:
    return name[0] == "w"


def _add(history: Mapping[str, DeltaChannelHistory], ancestor: CheckpointTuple) -> None:
    """Put what an ancestor holds of the channels before what its descendants do."""
    values = ancestor.checkpoint["channel_values"]
    for channel, known in history.items():
        if "seed" not in known:
            known["writes"][:0] = [write for write in ancestor.pending_writes or () if write[1] == channel]
            if channel in values:
                known["seed"] = values[channel]


async def _by_age(found: AsyncGenerator[StoredCheckpoint, None]) -> AsyncGenerator[StoredCheckpoint, None]:
    """Yield what is found newest first, whichever checkpoint_ns it is of."""
    for stored in sorted(await _all(found), key=lambda stored: stored.place.checkpoint_id, reverse=True):
        yield stored


async def _all(found: AsyncIterator[T]) -> Sequence[T]:
    return [each async for each in found]


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the work's result, done on an event loop of its own: in this thread, or beside it if a loop runs here."""
    if running_loop() is None:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, work).result()
