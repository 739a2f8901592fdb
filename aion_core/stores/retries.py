"""Retries of writes that met another write, or whose answer was lost."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from uuid_utils.compat import uuid7

from aion_core.errors import StoreUnavailable
from aion_core.ports.table import Check, Table, TokenReused, Write, WriteRefused

TRIES = 8
"""Attempts against other writers of the same items."""

TRIES_UNHEARD = 3
"""Attempts without an answer; boto3 makes each of them twice."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """The writes of a transaction, and the outcome once they are made; without writes, the outcome as it is."""

    outcome: T
    writes: Sequence[Write] = ()
    again: bool = False
    """True if the writes only clear the way: plan once more when they are made."""


async def jitter(attempt: int) -> None:
    """Wait before the next attempt: full jitter, growing."""
    await asyncio.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311  # no secret


async def commit(table: Table, plan: Callable[[int], Awaitable[Plan[T]]], *, busy: str) -> T:
    """Make the planned transaction; return its outcome.

    `plan` is called with the number of the attempt, from 0: after a refusal or a lost answer it reads again, finds its
    own earlier write if that was made, and plans anew; what it raises ends the commit. The token stays the same as long
    as the writes do. Raises StoreUnavailable, with the sentence `busy` after too many refusals.
    """
    unheard, token = 0, ""
    before: Sequence[Write] = ()
    for attempt in range(TRIES):
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
            if unheard == TRIES_UNHEARD:
                raise
        else:
            if planned.again:
                continue
            return planned.outcome
        await jitter(attempt)
    raise StoreUnavailable(busy)


async def _make(table: Table, writes: Sequence[Write], token: str) -> None:
    [first, *others] = writes
    if others or isinstance(first, Check):
        await table.transact(writes, token=token)
    else:
        # A transaction costs twice the write units.
        await table.write(first)
