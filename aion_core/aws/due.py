"""What is overdue on DynamoDB: the sparse index, which lags, and the items, which know."""

import asyncio
from collections.abc import Sequence
from itertools import chain

from aion_core.aws import items, keys
from aion_core.aws.client import Calls, Refused
from aion_core.aws.context_writes import ContextWrites
from aion_core.aws.table import Table
from aion_core.ports import Clock, Overdue
from aion_core.tasks.contexts import moment


class DueIndex:
    """The index `due` of one table."""

    def __init__(self, dynamodb: Calls, reads: Table, line: ContextWrites, clock: Clock) -> None:
        self._dynamodb, self._reads, self._line, self._clock = dynamodb, reads, line, clock

    async def overdue(self, *, limit: int) -> Sequence[Overdue]:
        """See `ports.TaskStore.overdue`."""
        found = await asyncio.gather(*(self._overdue(shard, limit) for shard in range(keys.DUE_SHARDS)))
        return sorted(chain.from_iterable(found), key=lambda overdue: overdue.at)[:limit]

    async def _overdue(self, shard: int, limit: int) -> list[Overdue]:
        page = await self._reads.due(keys.due_partition(shard), limit)
        return [Overdue(keys.context_of(item), moment(int(item["due_at"]["N"]))) for item in page]

    async def claim(self, overdue: Overdue) -> bool:
        """See `ports.TaskStore.claim`."""
        # The index lags: the item knows.
        item = await self._reads.get(keys.context_key(overdue.context))
        if item is None or "due_at" not in item or int(item["due_at"]["N"]) > self._now():
            return False
        try:
            await self._dynamodb("update_item", **self._line.claim(overdue, int(item["due_at"]["N"]))["Update"])
        except Refused:
            return False
        return True

    def _now(self) -> int:
        return items.milliseconds(self._clock.now())
