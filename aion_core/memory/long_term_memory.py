"""Long-term memory in a dict, fenced like that on DynamoDB; it lives as long as the process."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime

from aion_core.checkpointing.turn import Fence
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Clock, MemoryItem, MemoryScope, MemoryWrite, Namespace

_Place = tuple[MemoryScope, Namespace, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    item: MemoryItem
    expires: datetime | None


@dataclass
class MemoryRecords:
    """The items that the memories of all turns share."""

    kept: dict[_Place, _Kept] = field(default_factory=dict)


class MemoryLongTermMemory:
    """`ports.LongTermMemory` for one process."""

    def __init__(
        self, records: MemoryRecords, tasks: MemoryTaskStore, clock: Clock, *, fence: Fence | None = None
    ) -> None:
        """`tasks` knows the fence of each context. Without a fence, nobody is kept from writing."""
        self._kept, self._tasks, self._clock, self._fence = records.kept, tasks, clock, fence

    async def get(self, scope: MemoryScope, namespace: Namespace, key: str) -> MemoryItem | None:
        """See `ports.LongTermMemory.get`."""
        kept = self._kept.get((scope, namespace, key))
        return kept.item if kept is not None and self._lives(kept) else None

    async def search(self, scope: MemoryScope, prefix: Namespace) -> AsyncGenerator[MemoryItem, None]:
        """See `ports.LongTermMemory.search`."""
        for item in sorted(self._living(scope, prefix), key=lambda item: (item.namespace, item.key)):
            yield item

    async def namespaces(self, scope: MemoryScope, prefix: Namespace) -> Sequence[Namespace]:
        """See `ports.LongTermMemory.namespaces`."""
        return list({item.namespace for item in self._living(scope, prefix)})

    async def write(self, scope: MemoryScope, *changes: MemoryWrite) -> None:
        """See `ports.LongTermMemory.write`."""
        now = self._clock.now()
        with self._fenced():
            for change in changes:
                place = (scope, change.namespace, change.key)
                before = self._kept.pop(place, None)
                if change.value is None:
                    continue
                created = before.item.created_at if before is not None and self._lives(before) else now
                item = MemoryItem(change.namespace, change.key, change.value, created, now, change.ttl)
                self._kept[place] = self._keep(item)

    async def touch(self, scope: MemoryScope, *items: MemoryItem) -> None:
        """See `ports.LongTermMemory.touch`."""
        for item in items:
            place = (scope, item.namespace, item.key)
            kept = self._kept.get(place)
            if kept is not None and kept.item == item:
                self._kept[place] = self._keep(item)

    async def forget(self, owner: str, *, dry_run: bool = False) -> int:
        """See `ports.LongTermMemory.forget`."""
        found = [place for place in list(self._kept) if place[0].owner == owner]
        for place in [] if dry_run else found:
            del self._kept[place]
        return len(found)

    def _living(self, scope: MemoryScope, prefix: Namespace) -> Iterator[MemoryItem]:
        # A copy: synchronous nodes write in threads of their own.
        for (of, namespace, _), kept in list(self._kept.items()):
            if of == scope and namespace[: len(prefix)] == prefix and self._lives(kept):
                yield kept.item

    def _keep(self, item: MemoryItem) -> _Kept:
        return _Kept(item, self._clock.now() + item.ttl if item.ttl is not None else None)

    def _lives(self, kept: _Kept) -> bool:
        return kept.expires is None or kept.expires > self._clock.now()

    def _fenced(self) -> AbstractContextManager[None]:
        if self._fence is None:
            return nullcontext()
        return self._tasks.fenced(self._fence.context, self._fence.number)
