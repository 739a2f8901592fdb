"""LangGraph's checkpoints on DynamoDB; what is too large for a row lies in S3.

A super-step's time line, a line a request; each first checks that the CONTEXT's fence is still the holder's:

    aput_writes   update THREAD/CHECKPOINT#…#<task>    a task has ended: all it wrote, in one request
    aput          put THREAD/CHECKPOINT#…              the step is closed: the whole state

A task's writes must never be readable in part: LangGraph takes a task for finished as soon as one of them is.
"""

import asyncio
import random
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import Any, TypeVar, cast
from uuid import uuid4

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
from aion_core.aws.client import Calls, Refused
from aion_core.aws.items import Item
from aion_core.aws.task_store import LARGE_BYTES, TRIES
from aion_core.aws.writes import Write, put, update
from aion_core.checkpointing import BeforePut, Fence, LogFirst, StoredType, running_loop, serializer
from aion_core.errors import LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.ports import Blobs, Clock

FENCE_IS_MINE = "fence = :fence"

WRITES_A_PAGE = 100
"""How many writes of a task one item takes: an update expression may be 4 KB long. More are more items, at once."""

DELETES_AT_ONCE = 50
"""How many items one transaction deletes: 4 MB of them, at most."""

FIRST_PAGE, LARGEST_PAGE = 4, 256
"""How many items a query reads: the newest checkpoint and its writes are few, a thread's history is many."""

SLOW_BYTES = 256 * 1024
"""From here on speed of packing counts for more than size: it lies in S3, where size costs next to nothing."""

T = TypeVar("T")
Items = list[Item]
Writes = list[PendingWrite]


@dataclass(frozen=True, slots=True)
class _Packed:
    """A value as it is stored, and the channel it was written to, if it was."""

    type: str
    body: bytes
    channel: str = ""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A checkpoint's item with the items of what its tasks wrote."""

    place: keys.CheckpointSort
    item: Item
    writes: tuple[Item, ...]


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
        self._dynamodb, self._blobs, self._clock, self._table = dynamodb, blobs, clock, table
        self._fence, self._log_first, self._retention = fence, LogFirst(before_put), retention
        # Two transactions that check one CONTEXT are a conflict to DynamoDB, and parallel branches end together.
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
        """Delete the thread's checkpoints, oldest first: cut short, it leaves the thread's present as it is."""
        found: Items = []
        async for page in self._pages(thread_id, keys.namespace_sort(None), ProjectionExpression="pk, sk"):
            found += page
        for start in range(0, len(found), DELETES_AT_ONCE):
            some = found[start : start + DELETES_AT_ONCE]
            await self._commit([{"Delete": {"TableName": self._table, "Key": key}} for key in some])

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        _finished(self.adelete_thread(thread_id))

    # ── The reads ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or its thread's newest; None where there is none."""
        thread_id, ns, checkpoint_id = _place(config)
        first = keys.checkpoint_sort(ns, checkpoint_id or "")
        async with aclosing(self._newest_first(thread_id, first)) as found:
            async for stored in found:
                if checkpoint_id in (None, stored.place.checkpoint_id):
                    return await self._tuple(thread_id, stored)
        return None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`."""
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
        found = self._newest_first(thread_id, keys.namespace_sort(ns), last)
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
        async with aclosing(self._newest_first(thread_id, keys.namespace_sort(ns), last)) as found:
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

    async def _put(self, config: RunnableConfig, checkpoint_id: str, packed: _Packed) -> RunnableConfig:
        thread_id, ns, parent = _place(config)
        attributes = await self._attributes(thread_id, {"payload": packed})
        if parent:
            attributes["parent"] = items.text(parent)
        key = keys.checkpoint_key(thread_id, ns, checkpoint_id)
        await self._commit([put(self._table, key, {**attributes, **self._keeping()})])
        return _config(thread_id, ns, checkpoint_id)

    async def _put_writes(
        self, config: RunnableConfig, packed: Mapping[int, _Packed], task_id: str, task_path: str
    ) -> None:
        thread_id, ns, _ = _place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        pages: dict[int, dict[str, _Packed]] = {}
        for index, write in packed.items():
            pages.setdefault(max(index, 0) // WRITES_A_PAGE, {})[_slot(index)] = write
        await self._commit(
            [
                self._set_once(
                    keys.writes_key(thread_id, ns, checkpoint_id, task_id, page),
                    {"task_path": items.text(task_path), **await self._attributes(thread_id, slots)},
                )
                for page, slots in pages.items()
            ]
        )

    def _set_once(self, key: keys.Key, attributes: Item) -> Write:
        """Set the attributes; an ordinary write that is there stays, a special one is replaced."""
        attributes = {**attributes, **self._keeping()}
        changes = (
            f"{name} = if_not_exists({name}, :{name})" if _is_ordinary(name) else f"{name} = :{name}"
            for name in attributes
        )
        return update(self._table, key, f"SET {', '.join(changes)}", **attributes)

    async def _tuple(self, thread_id: str, stored: _Stored) -> CheckpointTuple:
        checkpoint, metadata = (await self._unpacked(stored.item))["payload"]
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
            for slot, value in (await self._unpacked(item)).items():
                order = writes_sort_key(item["task_path"]["S"], task_id, _index(slot))
                found.append((order, (task_id, item[slot]["M"]["channel"]["S"], value)))
        return [write for _, write in sorted(found, key=itemgetter(0))]

    def _pack(self, value: Any, channel: str = "") -> _Packed:
        kind, body = self.serde.dumps_typed(value)
        return _Packed(kind, zlib.compress(body, level=1 if len(body) > SLOW_BYTES else -1), channel)

    def _pack_writes(self, writes: Sequence[tuple[str, Any]]) -> Mapping[int, _Packed]:
        # By index: of two writes to one special channel the last counts, and an expression may set it only once.
        return {
            WRITES_IDX_MAP.get(channel, index): self._pack(value, channel)
            for index, (channel, value) in enumerate(writes)
        }

    async def _attributes(self, thread_id: str, values: Mapping[str, _Packed]) -> Item:
        """Return the attributes of an item that hold the values; they share a blob if the item would be too large."""
        if sum(len(value.body) for value in values.values()) <= LARGE_BYTES:
            return {name: _attribute(value, body={"B": value.body}) for name, value in values.items()}
        # The blob first: an item never points at nothing, and a blob that no item names expires with the bucket.
        blob, at = f"threads/{thread_id}/{uuid4()}", 0
        await self._blobs.put(blob, b"".join(value.body for value in values.values()))
        attributes: Item = {}
        for name, value in values.items():
            size = len(value.body)
            attributes[name] = _attribute(value, blob=items.text(blob), at=items.number(at), size=items.number(size))
            at += size
        return attributes

    async def _unpacked(self, item: Item) -> dict[str, Any]:
        """Return the values that the item holds, by attribute."""
        values: dict[str, Any] = {}
        blobs: dict[str, bytes] = {}
        for name, attribute in item.items():
            if "M" not in attribute:
                continue
            stored = attribute["M"]
            if "blob" in stored:
                blob = stored["blob"]["S"]
                if blob not in blobs:
                    blobs[blob] = await self._blob(blob)
                at = int(stored["at"]["N"])
                body = blobs[blob][at : at + int(stored["size"]["N"])]
            else:
                body = stored["body"]["B"]
            values[name] = self.serde.loads_typed((stored["type"]["S"], zlib.decompress(body)))
        return values

    async def _blob(self, name: str) -> bytes:
        content = await self._blobs.get(name)
        if content is None:
            raise StoreCorrupt("The payload of a checkpoint is missing.")
        return content

    def _keeping(self) -> Item:
        expires = int((self._clock.now() + self._retention).timestamp())
        return {"v": items.number(items.VERSION), "expires": items.number(expires)}

    # ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _newest_first(self, thread_id: str, first: str, last: str | None = None) -> AsyncGenerator[_Stored, None]:
        """Yield the living checkpoints whose sort key begins with `first`, up to `last`, with what was written to each.

        A task's writes sort after their checkpoint, so they come before it; without it, they are nobody's.
        """
        writes: list[tuple[keys.CheckpointSort, Item]] = []
        async with aclosing(self._pages(thread_id, first, last, ScanIndexForward=False)) as pages:
            async for page in pages:
                for item in filter(self._lives, page):
                    place = keys.checkpoint_of(item["sk"]["S"])
                    if place.task_id:
                        writes.append((place, item))
                    else:
                        yield _Stored(place, item, tuple(write for of, write in writes if of[:2] == place[:2]))
                        writes.clear()

    async def _pages(
        self, thread_id: str, first: str, last: str | None = None, **options: Any
    ) -> AsyncGenerator[Items, None]:
        """Yield the thread's items in order of their sort keys, consistently, page by page."""
        start: dict[str, Item] = {}
        size = FIRST_PAGE
        while True:
            page = await self._dynamodb(
                "query",
                TableName=self._table,
                # What the last holder wrote before it lost the context must be seen: a step would run twice.
                ConsistentRead=True,
                KeyConditionExpression="pk = :pk AND sk BETWEEN :first AND :last",
                ExpressionAttributeValues={
                    ":pk": items.text(keys.thread_partition(thread_id)),
                    ":first": items.text(first),
                    ":last": items.text(last or first + keys.LAST),
                },
                Limit=size,
                **options,
                **start,
            )
            yield page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            start, size = {"ExclusiveStartKey": page["LastEvaluatedKey"]}, min(size * 4, LARGEST_PAGE)

    async def _commit(self, writes: Sequence[Write]) -> None:
        """Make the writes, all or nothing, if the fence still holds."""
        if not writes:
            return
        for attempt in range(TRIES):
            try:
                await self._request(writes)
            except Refused as refused:
                if "ConditionalCheckFailed" in refused.reasons:
                    raise LeaseLost("Another holder runs this context now.") from None
                if not refused.conflict:
                    raise StoreError(f"A checkpoint was refused: {refused}") from refused
                # Let the others write first: full jitter, growing.
                await asyncio.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311  # no secret
            else:
                return
        raise StoreUnavailable("The context is being written by too many at once.")

    async def _request(self, writes: Sequence[Write]) -> None:
        if self._fence is None and len(writes) == 1:
            [(kind, parameters)] = writes[0].items()
            await self._dynamodb(f"{kind.lower()}_item", **parameters)
        else:
            guard = [self._check(self._fence)] if self._fence else []
            await self._dynamodb("transact_write_items", TransactItems=[*guard, *writes])

    def _check(self, fence: Fence) -> Write:
        return {
            "ConditionCheck": {
                "TableName": self._table,
                "Key": keys.context_key(fence.context),
                "ConditionExpression": FENCE_IS_MINE,
                "ExpressionAttributeValues": {":fence": items.number(fence.number)},
            }
        }

    def _lives(self, item: Item) -> bool:
        # DynamoDB deletes expired items late, and one by one.
        return int(item["expires"]["N"]) > self._clock.now().timestamp()


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


def _attribute(value: _Packed, **where: Item) -> Item:
    channel = {"channel": items.text(value.channel)} if value.channel else {}
    return {"M": {**channel, "type": items.text(value.type), **where}}


def _add(history: Mapping[str, DeltaChannelHistory], ancestor: CheckpointTuple) -> None:
    """Put what an ancestor holds of the channels before what its descendants do."""
    values = ancestor.checkpoint["channel_values"]
    for channel, known in history.items():
        if "seed" not in known:
            known["writes"][:0] = [write for write in ancestor.pending_writes or () if write[1] == channel]
            if channel in values:
                known["seed"] = values[channel]


async def _by_age(found: AsyncGenerator[_Stored, None]) -> AsyncGenerator[_Stored, None]:
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
