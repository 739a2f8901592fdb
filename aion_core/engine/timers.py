"""Timers (times of wake-ups) of items: found in an index that may lag, claimed by a write to the item."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
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
from aion_core.table.keys import ContextKey, PushTimerOf, TimerOf
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

PUSH_PLANS, PUSH_WAITS = (
    tuple(keys.push_timer_partition(shard, kind) for shard in range(keys.TIMER_SHARDS))
    for kind in (PushTimerOf.PLAN, PushTimerOf.WAIT)
)
"""Partitions of the timer index for push timers: for claims and planned retries, and for what has a message.

Contexts use others, so that many push timers do not delay them.
"""

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
    """Result of a claim of a timer. It is true if the claim succeeded."""

    NOT = 0
    WORK = 1
    """Nobody runs the turn, or delivers the notification: its wake-up message is lost, or its process has died."""
    LOOK = 2
    """The context's turn is suspended, and nobody has looked whether its wait is over."""
    RETRY = 3
    """The push config has a planned retry, and the sweep sends its only wake-up message."""


class Expired(NamedTuple):
    """Expired timer of an item: the time at which it expired, and the key of the item."""

    at: datetime
    key: Key


class TimerIndex:
    """Timers (times of wake-ups) of one kind. `shards` are its index partitions, such as LEASES, WAITS or PUSH_WAITS."""

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
        found = await self._of_each_shard(lambda shard: self._reads.expired_timers(shard, limit), complete=complete)
        return sorted(Expired(moment(item["due_at"]), key_of(item)) for item in found)

    async def between(self, first: int, last: int) -> list[Key]:
        """Return the keys of all items whose timers expire between these times, in milliseconds since 1970.

        If a partition cannot be read, log the error and leave it out. Raises StoreError if no partition can be read.
        """

        async def read(shard: str) -> list[Item]:
            return [item async for item in self._reads.timers_between(shard, first, last)]

        return [key_of(item) for item in await self._of_each_shard(read)]

    async def _of_each_shard(
        self, read: Callable[[str], Awaitable[list[Item]]], *, complete: bool = False
    ) -> list[Item]:
        answers = await asyncio.gather(*(read(shard) for shard in self._shards), return_exceptions=True)
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
        return found

    async def count(self) -> int:
        """Return the number of timers in all index partitions, expired or not.

        Raises StoreError if a partition cannot be read.
        """
        return sum(await asyncio.gather(*(self._reads.count_timers(shard) for shard in self._shards)))

    async def claimed(self, key: Key, *, shard: str = "") -> Item | None:
        """Claim the timer of the item with this key, so that only one process handles it.

        The claim sets the timer again, in the index partition `shard` if one is given. Return the item as it was
        before. Return None if the timer is not due, its item has expired, or another process has claimed it.
        """
        # Read the timer's current time from the item, because the index may be outdated.
        item = await self._table.get(key)
        is_alive = item is not None and self._reads.lives(item)
        change = claimed_timer(item, self._times(), is_alive=is_alive, shard=shard)
        if change is None:
            return None
        try:
            await self._table.write(Update(key, change))
        except WriteRefused:
            return None
        return item if is_alive else None


def claimed_timer(item: Item | None, times: Times, *, is_alive: bool, shard: str = "") -> Change | None:
    """Return the change to claim the expired timer of an item; None if the item has no expired timer.

    The claim sets the timer again, so that no other sweep claims it while the wake-up message is on its way. With
    `shard`, it moves the timer to this partition of the index. If the item's TTL has passed (`is_alive` is False), the
    change removes the timer instead. Otherwise each sweep would find it first until DynamoDB deletes the item.
    """
    due_at = item.get("due_at") if item is not None else None
    if due_at is None or due_at > times.now:
        return None
    as_read = Equals("due_at", due_at)
    if not is_alive:
        return Change(remove=NO_TIMER, only_if=as_read)
    moved = {"due_shard": shard} if shard else {}
    return Change({"due_at": times.lease_until, **moved}, only_if=as_read)
