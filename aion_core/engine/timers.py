"""Timers (times of wake-ups) of items: found in an index that may lag, claimed by a write to the item."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.errors import StoreError
from aion_core.table import keys
from aion_core.table.conditions import Equals
from aion_core.table.item import Item, Key, key_of
from aion_core.table.keys import ContextKey, TimerOf
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.refusals import WriteRefused
from aion_core.table.times import Times, moment
from aion_core.table.writes import Change, Update

logger = logging.getLogger(__name__)

LEASES, WAITS = (
    tuple(keys.timer_partition(shard, kind) for shard in range(keys.TIMER_SHARDS))
    for kind in (TimerOf.LEASE, TimerOf.WAIT)
)
"""Partitions of the timer index for contexts with a running turn, and for those whose turns only wait.

They differ, so that a backlog of waiting turns does not delay the sweep of dead leases.
"""

PUSHES = tuple(keys.push_timer_partition(shard) for shard in range(keys.TIMER_SHARDS))
"""Partitions of the timer index for push timers. Contexts use others, so that many push timers do not delay them."""

NO_TIMER = ("due_shard", "due_at")
"""The attributes of a timer; a change removes them."""


class ExpiredTimer(Struct, frozen=True):
    """Expired timer (time of a wake-up) of a context, read from an index that may be outdated."""

    context: ContextKey
    at: datetime
    """Time at which the timer expired."""
    overdue: float = 0.0
    """Seconds since then."""


class Claimed(IntEnum):
    """Result of a claim of a context's timer. It is true if the claim succeeded."""

    NOT = 0
    WORK = 1
    """The context has a turn that nobody runs: its wake-up message is lost, or the process that ran it has died."""
    LOOK = 2
    """The context's turn is suspended, and nobody has looked whether its wait is over."""


class Expired(NamedTuple):
    """Expired timer of an item: the time at which it expired, and the key of the item."""

    at: datetime
    key: Key


class TimerIndex:
    """Timers (times of wake-ups) of one kind. `shards` are its index partitions, such as LEASES, WAITS or PUSHES."""

    def __init__(self, table: Table, clock: Clock, shards: Sequence[str], *, lease_seconds: float) -> None:
        self._table, self._shards = table, shards
        self._times = partial(Times.read, clock, lease_seconds)
        self._reads = Reads(table, clock)

    async def expired(self, limit: int, *, complete: bool = False) -> list[Expired]:
        """Return the expired timers of all index partitions, longest overdue first, at most `limit` per partition.

        If a partition cannot be read, log the error and leave it out. Raises StoreError if no partition can be read or,
        with `complete`, if one cannot be read.
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
        if failures and (complete or len(failures) == len(self._shards)):
            raise next(iter(failures.values()))
        for shard, error in failures.items():
            logger.error("The timers of shard %s cannot be read.", shard, exc_info=error)
        return sorted(Expired(moment(item["due_at"]), key_of(item)) for item in found)

    async def count(self) -> int:
        """Return the number of timers in all index partitions, expired or not.

        Raises StoreError if a partition cannot be read.
        """
        return sum(await asyncio.gather(*(self._reads.count_timers(shard) for shard in self._shards)))

    async def claim(self, key: Key) -> bool:
        """Claim the timer of the item with this key, so that only one process handles it.

        Return True if the claim succeeded. Return False if the timer is not due, its item has expired, or another
        process has claimed it.
        """
        return await self.claimed(key) is not None

    async def claimed(self, key: Key) -> Item | None:
        """Claim the timer as `claim` does, and return the item as it was before; None if the claim did not succeed."""
        # Read the timer's current time from the item, because the index may be outdated.
        item = await self._table.get(key)
        is_alive = item is not None and self._reads.lives(item)
        change = claimed_timer(item, self._times(), is_alive=is_alive)
        if change is None:
            return None
        try:
            await self._table.write(Update(key, change))
        except WriteRefused:
            return None
        return item if is_alive else None


def claimed_timer(item: Item | None, times: Times, *, is_alive: bool) -> Change | None:
    """Return the change to claim the expired timer of an item; None if the item has no expired timer.

    The claim sets the timer again, so that no other sweep claims it while the wake-up message is on its way. If the
    item's TTL has passed (`is_alive` is False), the change removes the timer instead. Otherwise each sweep would find
    it first until DynamoDB deletes the item.
    """
    due_at = item.get("due_at") if item is not None else None
    if due_at is None or due_at > times.now:
        return None
    as_read = Equals("due_at", due_at)
    if not is_alive:
        return Change(remove=NO_TIMER, only_if=as_read)
    return Change({"due_at": times.lease_until}, only_if=as_read)
