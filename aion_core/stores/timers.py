"""Timers of items: a sparse index, eventually consistent, and claims by the items themselves."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from aion_core.errors import StoreError
from aion_core.ports import Clock
from aion_core.ports.table import Item, Key, Table, Update, WriteRefused
from aion_core.stores import keys
from aion_core.stores.items import Reads
from aion_core.tasks import contexts
from aion_core.tasks.contexts import Times, moment

logger = logging.getLogger(__name__)


CONTEXTS = tuple(keys.timer_partition(shard) for shard in range(keys.TIMER_SHARDS))
"""Index partitions of the contexts' timers."""

PUSHES = tuple(keys.push_timer_partition(shard) for shard in range(keys.TIMER_SHARDS))
"""Index partitions of the push timers; contexts have their own, so neither delays the other."""


class Expired(NamedTuple):
    """Entry of an expired timer in the index."""

    at: datetime
    key: Key


class TimerIndex:
    """Timers in some partitions of the index: CONTEXTS or PUSHES."""

    def __init__(self, table: Table, clock: Clock, shards: Sequence[str], *, lease_seconds: float) -> None:
        self._table, self._shards = table, shards
        self._times = partial(Times.read, clock, lease_seconds)
        self._reads = Reads(table, clock)

    async def expired(self, limit: int) -> list[Expired]:
        """Return the expired timers of all shards, at most `limit` of each, longest overdue first.

        An unreadable shard is logged and left out. Raises StoreError if no shard can be read.
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
        """Claim the item's timer; True if it has expired, the item is alive, and no other process has the claim."""
        # The index lags: the item has the current time.
        item = await self._table.get(key)
        is_alive = item is not None and self._reads.lives(item)
        change = contexts.claimed_timer(item, self._times(), is_alive=is_alive)
        if change is None:
            return False
        try:
            await self._table.write(Update(key, change))
        except WriteRefused:
            return False
        return is_alive
