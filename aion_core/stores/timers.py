"""Timers of the table's items: the sparse index, which lags, and the items, which are consistent."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from aion_core.errors import StoreError
from aion_core.ports import Clock
from aion_core.ports.table import Item, Key, Table, Update, WriteRefused
from aion_core.stores import keys
from aion_core.stores.items import Reads
from aion_core.tasks import timers
from aion_core.tasks.contexts import Times, milliseconds, moment

logger = logging.getLogger(__name__)


CONTEXTS = tuple(keys.timer_partition(shard) for shard in range(keys.TIMER_SHARDS))
"""The shards of contexts."""

PUSHES = tuple(keys.push_timer_partition(shard) for shard in range(keys.TIMER_SHARDS))
"""The shards of push notifications: apart from the contexts', which do not wait for these."""


def times_of(clock: Clock, lease_seconds: float, retention: timedelta = timedelta()) -> Times:
    """Return the times of one attempt to write, from one reading of the clock."""
    return Times(milliseconds(clock.now()), int(lease_seconds * 1000), int(retention.total_seconds()))


class Expired(NamedTuple):
    """An expired timer, as the index has it."""

    at: datetime
    key: Key


class TimerIndex:
    """The timers in some shards of the index: CONTEXTS or PUSHES."""

    def __init__(self, table: Table, clock: Clock, shards: Sequence[str], *, lease_seconds: float) -> None:
        self._table, self._clock, self._shards, self._lease = table, clock, shards, lease_seconds
        self._reads = Reads(table, clock)

    async def expired(self, limit: int) -> list[Expired]:
        """Return the expired timers of all shards, at most `limit` of each, the longest overdue first.

        A shard that cannot be read is logged and left out; raises StoreError if no shard can be read.
        """
        if not limit:
            return []
        answers = await asyncio.gather(
            *(self._reads.expired_timers(shard, limit) for shard in self._shards), return_exceptions=True
        )
        found: list[Item] = []
        failures: dict[str, StoreError] = {}
        for shard, answer in zip(self._shards, answers, strict=True):
            if isinstance(answer, StoreError):
                failures[shard] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
        if len(failures) == len(self._shards):
            raise failures[self._shards[0]]
        for shard, error in failures.items():
            logger.error("The timers of shard %s cannot be read.", shard, exc_info=error)
        return sorted(Expired(moment(item["due_at"]), keys.key_of(item)) for item in found)

    async def claim(self, key: Key) -> bool:
        """Claim the item's timer: True if it has expired, the item is alive, and nobody else claims it."""
        # The index lags: only the item says when it is due.
        item = await self._table.get(key)
        is_alive = item is not None and self._reads.lives(item)
        change = timers.claimed(item, times_of(self._clock, self._lease), is_alive=is_alive)
        if change is None:
            return False
        try:
            await self._table.write(Update(key, change))
        except WriteRefused:
            return False
        return is_alive
