"""Retries of writes that met another write, or whose answer was lost; also of those that depend on a fence."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from uuid_utils.compat import uuid7

from aion_core.errors import LeaseLost, StoreUnavailable
from aion_core.ports import ContextKey
from aion_core.ports.table import Check, Equals, Table, TokenReused, Write, WriteRefused
from aion_core.stores import keys

MAX_ATTEMPTS = 8
"""Attempts against other writers of the same items."""

MAX_LOST_ANSWERS = 3
"""Attempts without an answer; boto3 makes each of them twice."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TransactionPlan(Generic[T]):
    """The writes of a transaction, and the outcome once they are made; without writes, the outcome as it is."""

    outcome: T
    writes: Sequence[Write] = ()
    again: bool = False
    """True if the writes only clear the way: plan once more when they are made."""


async def jitter(attempt: int) -> None:
    """Wait before the next attempt: full jitter, growing."""
    await asyncio.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311  # no secret


async def commit(table: Table, plan: Callable[[int], Awaitable[TransactionPlan[T]]], *, busy: str) -> T:
    """Make the planned transaction; return its outcome.

    `plan` is called with the number of the attempt, from 0: after a refusal or a lost answer it reads again, finds its
    own earlier write if that was made, and plans anew; what it raises ends the commit. The token stays the same as long
    as the writes do. Raises StoreUnavailable, with the sentence `busy` after too many refusals.
    """
    unheard, token = 0, ""
    before: Sequence[Write] = ()
    for attempt in range(MAX_ATTEMPTS):
        try:
            planned = await plan(attempt)
            if not planned.writes:
                return planned.outcome
            if planned.writes != before:
                before, token = planned.writes, str(uuid7())
            await _make(table, planned.writes, token)
        except (WriteRefused, TokenReused):
            pass
        except StoreUnavailable:
            unheard += 1
            if unheard == MAX_LOST_ANSWERS:
                raise
        else:
            if planned.again:
                continue
            return planned.outcome
        await jitter(attempt)
    raise StoreUnavailable(busy)


async def write_unless_refused(make: Callable[[], Awaitable[Any]]) -> None:
    """Make one write, or none if its condition does not hold; try again while a transaction writes the item.

    Raises StoreUnavailable after too many conflicts.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            await make()
        except WriteRefused as refused:
            if not refused.is_conflict:
                return
            await jitter(attempt)
        else:
            return
    raise StoreUnavailable("Too many transactions write this item at once.")


async def _make(table: Table, writes: Sequence[Write], token: str) -> None:
    [first, *others] = writes
    if others or isinstance(first, Check):
        await table.transact(writes, token=token)
    else:
        # A transaction costs twice the write units.
        await table.write(first)


@dataclass(frozen=True, slots=True)
class Fence:
    """The condition of a turn's writes: the context's fence is still the number that its holder was given."""

    context: ContextKey
    number: int


class FencedWrites:
    """Writes of one table by the holder of one fence; without a fence, by anybody."""

    def __init__(self, table: Table, fence: Fence | None) -> None:
        self._table = table
        self._guard = [Check(keys.context_key(fence.context), Equals("fence", fence.number))] if fence else []

    async def commit(self, *writes: Write) -> None:
        """Make the writes, all or none; a transaction whose answer is lost is made once.

        Raises LeaseLost if another holder has the context, WriteRefused if a condition of the writes does not hold.
        """
        token = str(uuid7())
        unheard = 0
        for attempt in range(MAX_ATTEMPTS if writes else 0):
            try:
                if not self._guard and len(writes) == 1 and not isinstance(writes[0], Check) and not writes[0].only_if:
                    await self._table.write(writes[0])
                else:
                    await self._table.transact([*self._guard, *writes], token=token)
            except WriteRefused as refused:
                if self._guard and refused.failed(0):
                    raise LeaseLost("Another holder runs this context now.") from None
                if not refused.is_conflict:
                    raise
            except StoreUnavailable:
                unheard += 1
                if unheard == MAX_LOST_ANSWERS:
                    raise
            else:
                return
            await jitter(attempt)
        if writes:
            raise StoreUnavailable("The context is being written by too many at once.")
