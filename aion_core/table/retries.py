"""Retries of writes after conflicts and lost responses."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from uuid_utils import uuid7

from aion_core.errors import StoreUnavailable
from aion_core.table.port import Table
from aion_core.table.refusals import TokenReused, WriteRefused
from aion_core.table.writes import ConditionCheck, Write

T = TypeVar("T")

MAX_ATTEMPTS = 8
"""Maximum number of attempts of a write that conflicts with other writers of the same items."""

FIRST_WAIT_SECONDS = 0.02
"""Longest wait before the second attempt. It doubles with each further attempt."""

MAX_LOST_ANSWERS = 3
"""Maximum number of attempts of a write whose responses are lost. In each attempt boto3 sends the request twice."""


class TransactionPlan(Struct, Generic[T], frozen=True):
    """Writes of a transaction, and the outcome to return after them. `writes` may be empty."""

    outcome: T
    writes: Sequence[Write] = ()
    again: bool = False
    """True if the writes only prepare the transaction: after them, it must be planned again."""


async def jitter(attempt: int) -> None:
    """Wait before the next attempt, with exponential backoff and full jitter."""
    await asyncio.sleep(random.uniform(0, FIRST_WAIT_SECONDS * 2**attempt))  # noqa: S311  # a delay, no secret


async def commit(table: Table, plan: Callable[[int], Awaitable[TransactionPlan[T]]], *, busy: str) -> T:
    """Plan a transaction, make its writes and return its outcome, with retries.

    `plan` gets the number of the attempt, from 0. After a refusal or a lost response, `plan` must read the records
    again, look for its own earlier write, and return a new plan. If `plan` raises, the commit ends. The same writes
    keep the same client token. Raises StoreUnavailable, with the text `busy` after too many refusals.
    """
    lost_answers, token = 0, ""
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
            lost_answers += 1
            if lost_answers == MAX_LOST_ANSWERS:
                raise
        else:
            if planned.again:
                continue
            return planned.outcome
        await jitter(attempt)
    raise StoreUnavailable(busy)


async def write_unless_refused(make: Callable[[], Awaitable[Any]]) -> bool:
    """Make one write. Return False if its condition fails. Repeat the write after a conflict with a transaction.

    Raises StoreUnavailable after too many conflicts.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            await make()
        except WriteRefused as refused:
            if not refused.is_conflict:
                return False
            await jitter(attempt)
        else:
            return True
    raise StoreUnavailable("Too many transactions write this item at once.")


async def _make(table: Table, writes: Sequence[Write], token: str) -> None:
    [first, *others] = writes
    if others or isinstance(first, ConditionCheck):
        await table.transact(writes, token=token)
    else:
        # Make a single write without a transaction, because a transaction costs twice the write units.
        await table.write(first)
