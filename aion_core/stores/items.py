"""Helpers for the table's items: reads without expired items, TTLs, payloads of any size, and reads of threads."""

import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import timedelta
from typing import Any, Self, TypeVar
from uuid import uuid4

from msgspec import Struct

from aion_core.errors import StoreCorrupt
from aion_core.ports import Blobs, Clock
from aion_core.ports.payloads import VersionPage
from aion_core.ports.schema import TIMERS, TTL_ATTRIBUTE
from aion_core.ports.table import LAST, SORT, Index, Item, Key, Page, Table
from aion_core.stores import keys
from aion_core.tasks.contexts import VERSION, milliseconds


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Context manager: raise StoreCorrupt if an item has invalid attributes. `what` names the item in the error."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise StoreCorrupt(f"{what} cannot be read.") from error


P = TypeVar("P", Page, VersionPage)


async def all_pages(read: Callable[[Any], Awaitable[P]]) -> AsyncGenerator[P, None]:
    """Yield all pages of a query. `read` gets the end position of the page before, or None for the first page."""
    after = None
    while True:
        page = await read(after)
        yield page
        if page.next is None:
            return
        after = page.next


class Reads:
    """Reads of one table. Its clock decides if an item has expired."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    async def get(self, key: Key) -> Item | None:
        """Return the item with this key, or None if it does not exist or has expired."""
        item = await self._table.get(key)
        return item if item is not None and self.lives(item) else None

    async def query(self, partition: str, first: str, last: str) -> list[Item]:
        """Return all items of the partition between two sort keys, except expired items."""
        return [item async for page in self.pages(partition, first, last) for item in page if self.lives(item)]

    async def pages(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int | None = None,
        largest: int | None = None,
        newest_first: bool = False,
        keys_only: bool = False,
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the items between two sort keys, one list per request, including expired items.

        The first page has at most `limit` items. The limit of each later page is four times higher, up to `largest`.
        """
        after = None
        while True:
            page = await self._table.query(
                partition, first, last, newest_first=newest_first, limit=limit, after=after, keys_only=keys_only
            )
            yield list(page.items)
            if page.next is None:
                return
            after = page.next
            if limit is not None:
                limit = min(limit * 4, largest or limit)

    async def expired_timers(self, shard: str, limit: int) -> list[Item]:
        """Return the expired timers in a partition of the timer index, longest overdue first. The index may lag."""
        page = await self._table.query_index(TIMERS, shard, 0, milliseconds(self._clock.now()), limit=limit)
        return list(page.items)

    async def all_of_index(self, index: Index, partition: str, *, newest_first: bool = False) -> AsyncIterator[Item]:
        """Yield every entry in a partition of the index. The index may lag behind the table."""

        def read(after: Any) -> Awaitable[Page]:
            return self._table.query_index(index, partition, "", LAST, newest_first=newest_first, after=after)

        async for page in all_pages(read):
            for item in page.items:
                yield item

    def lives(self, item: Item) -> bool:
        """Return True unless the item has expired. DynamoDB deletes expired items late, so each read must check."""
        return TTL_ATTRIBUTE not in item or int(item[TTL_ATTRIBUTE]) > self._clock.now().timestamp()


STATE_GRACE = timedelta(days=1)
"""Time for which an agent's state outlives its task, but at most a seventh of the retention.

A client may answer in the last second of a task. The answer extends the task at once, the state only when the turn runs.
"""


class Ttl:
    """Computes TTLs from the clock and the deployment's retention."""

    def __init__(self, clock: Clock, retention: timedelta = timedelta()) -> None:
        self._clock, self._retention = clock, retention
        self._grace = min(STATE_GRACE, retention / 7)

    def now(self) -> int:
        """Return the current time in seconds. Items with this TTL or an earlier one have expired."""
        return self.after(timedelta())

    def after(self, life: timedelta) -> int:
        """Return the TTL of an item that is written now and expires after `life`."""
        return int((self._clock.now() + life).timestamp())

    def end(self, retentions: float = 1) -> int:
        """Return the TTL of an item that is written now and expires after this number of retention periods."""
        return self.after(retentions * self._retention)

    def state_end(self, graces: float = 1) -> int:
        """Return the TTL of an agent's state that is written now. It is later than the TTL of the task."""
        return self.after(self._retention + graces * self._grace)

    def history_end(self, share: float = 1) -> int:
        """Return the TTL, or a share of its time after one retention, of items on which a newer state depends.

        It is at most 15 days later than that of a task, because the bucket deletes the items' blobs then.
        """
        return self.after(self._retention + share * min(timedelta(days=15), self._retention / 2))

    def attributes(self, expires: int) -> Item:
        """Return the version and TTL attributes of an item."""
        return {"v": VERSION, TTL_ATTRIBUTE: expires}


LARGE_BYTES = 32 * 1024
"""Largest payload stored in an item. A larger payload becomes a blob: S3 costs less than DynamoDB's write units."""

FAST_BYTES = 256 * 1024
"""Size from which compression is optimised for speed, because size costs little on S3."""


SMALL_BYTES = 4096
"""Size up to which zlib gets little memory: to allocate its usual 256 KB takes ten times as long as to compress."""

TINY_BYTES = 512
"""Size up to which values are not compressed, only stored in zlib's format: they fit into one write unit of 1 KB."""


def compress(content: bytes) -> bytes:
    """Return the bytes compressed by zlib."""
    if len(content) > SMALL_BYTES:
        return zlib.compress(content, level=1 if len(content) > FAST_BYTES else -1)
    tiny = len(content) <= TINY_BYTES
    packer = zlib.compressobj(0, wbits=9, memLevel=1) if tiny else zlib.compressobj(wbits=12, memLevel=5)
    return packer.compress(content) + packer.flush()


class StoredPayload(Struct, frozen=True):
    """Stored form of a serialized value: the serializer's type, the compressed bytes and LangGraph's channel."""

    type: str
    body: bytes
    channel: str = ""

    @classmethod
    def of(cls, serialized: tuple[str, bytes], channel: str = "") -> Self:
        """Make the stored form from the serializer's output: a type and bytes."""
        return cls(serialized[0], compress(serialized[1]), channel)

    @property
    def serialized(self) -> tuple[str, bytes]:
        """The serializer's output: its type and the uncompressed bytes."""
        return self.type, zlib.decompress(self.body)


class Payloads:
    """Store for payloads. Small payloads become attributes of an item, large payloads a blob."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._last = "", b""
        """Name and content of the last read blob, until a write. A turn reads its first checkpoint twice."""

    async def attributes(self, payloads: Mapping[str, StoredPayload], *, folder: str) -> Item:
        """Return an item's attributes for the payloads. Store large payloads together as one blob in the folder."""
        self._last = "", b""
        if sum([len(payload.body) for payload in payloads.values()]) <= LARGE_BYTES:
            return {name: _described(payload, body=payload.body) for name, payload in payloads.items()}
        # Store the blob before the item, because an item must not refer to a missing blob. Unused blobs expire with
        # their folder.
        blob, at = f"{folder}/{uuid4()}", 0
        await self._blobs.put(blob, b"".join(payload.body for payload in payloads.values()))
        attributes: Item = {}
        for name, payload in payloads.items():
            size = len(payload.body)
            attributes[name] = _described(payload, blob=blob, at=at, size=size)
            at += size
        return attributes

    async def of(self, item: Item) -> dict[str, StoredPayload]:
        """Return an item's payloads by attribute name. Raises StoreCorrupt if a blob is missing."""
        payloads: dict[str, StoredPayload] = {}
        for name, stored in item.items():
            if not isinstance(stored, dict):
                continue
            if blob := stored.get("blob"):
                body = (await self._content(blob))[stored["at"] : stored["at"] + stored["size"]]
            else:
                body = stored["body"]
            payloads[name] = StoredPayload(stored["type"], body, stored["channel"])
        return payloads

    async def _content(self, blob: str) -> bytes:
        name, content = self._last
        if name == blob:
            return content
        found = await self._blobs.get(blob)
        if found is None:
            raise StoreCorrupt("A payload of a checkpoint or an ADK session is missing in the bucket.")
        self._last = blob, found
        return found


def blobs_of(item: Item) -> list[str]:
    """Return the names of the blobs with an item's payloads. Each write of a LangGraph task may add a blob to its item."""
    return list(dict.fromkeys(value["blob"] for value in item.values() if isinstance(value, dict) and "blob" in value))


def _described(payload: StoredPayload, **location: bytes | str | int) -> Item:
    return {"type": payload.type, "channel": payload.channel, **location}


# ── LangGraph threads ─────────────────────────────────────────────────────────────────────────────────────────────────

FIRST_PAGE, LARGEST_PAGE = 4, 256
"""Page sizes of a query. The newest checkpoint needs few items, a thread's history many."""


class StoredCheckpoint(Struct, frozen=True):
    """Item of a checkpoint, with the items of its LangGraph tasks' writes."""

    place: keys.CheckpointSort
    item: Item
    writes: tuple[Item, ...]


class ThreadItems:
    """Queries of the items of LangGraph threads: checkpoints, and the writes of LangGraph tasks."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def newest_first(
        self, thread_id: str, first: str, last: str | None = None
    ) -> AsyncGenerator[StoredCheckpoint, None]:
        """Yield the checkpoints with sort keys from `first` to `last`, newest first, each with its tasks' writes.

        Without `last`, yield the checkpoints with the prefix `first`. Writes sort after their checkpoint, so this query
        returns the writes first. Writes without a checkpoint are left out.
        """
        written: list[tuple[keys.CheckpointSort, Item]] = []
        async with aclosing(self.pages(thread_id, first, last, newest_first=True)) as pages:
            async for page in pages:
                for item in filter(self._reads.lives, page):
                    place = keys.checkpoint_of(item[SORT])
                    if place.task_id:
                        written.append((place, item))
                    else:
                        own = tuple(write for of, write in written if of[:2] == place[:2])
                        written.clear()
                        yield StoredCheckpoint(place, item, own)

    def pages(
        self, thread_id: str, first: str, last: str | None = None, **options: bool
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the items with sort keys from `first` to `last`, or with the prefix `first`, one list per request."""
        partition, last = keys.thread_partition(thread_id), last or first + keys.LAST
        return self._reads.pages(partition, first, last, limit=FIRST_PAGE, largest=LARGEST_PAGE, **options)
