"""Retries of writes after conflicts and lost responses, and writes that check the fence (fencing token)."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from uuid_utils import uuid7

from aion_core.errors import LeaseLost, StoreUnavailable
from aion_core.ports import ContextKey
from aion_core.ports.table import (
    Change,
    ConditionCheck,
    Delete,
    Put,
    Table,
    TokenReused,
    Update,
    Write,
    WriteRefused,
)
from aion_core.stores import keys
from aion_core.tasks import contexts

MAX_ATTEMPTS = 8
"""Maximum number of attempts of a write that conflicts with other writers of the same items."""

FIRST_WAIT_SECONDS = 0.02
"""Longest wait before the second attempt. It doubles with each further attempt."""

MAX_LOST_ANSWERS = 3
"""Maximum number of attempts of a write whose responses are lost. In each attempt boto3 sends the request twice."""

T = TypeVar("T")


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


async def write_unless_refused(make: Callable[[], Awaitable[Any]]) -> None:
    """Make one write. Ignore a failed condition, and repeat the write after a conflict with a transaction.

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
    if others or isinstance(first, ConditionCheck):
        await table.transact(writes, token=token)
    else:
        # Make a single write without a transaction, because a transaction costs twice the write units.
        await table.write(first)


class Fence(Struct, frozen=True):
    """Condition of a turn's writes: the context's fence (fencing token) still has this number."""

    context: ContextKey
    number: int


class FencedWrites:
    """Writes of a turn. With a `Fence`, each write checks that no other lease holder has the context."""

    def __init__(self, table: Table, fence: Fence | None) -> None:
        self._table, self._fence = table, fence
        self._fence_check: Sequence[Write] = (
            [ConditionCheck(keys.context_key(fence.context), contexts.fence_is(fence.number))] if fence else []
        )
        self._advanced = False
        """True after the first step of this lease, when the context's record is marked."""

    async def commit_step(self, *writes: Write) -> None:
        """Make the writes at the end of a step, as `commit` does. The first step also marks the context's record.

        The mark shows the next holder that the turn has made progress. It costs no request, because it replaces the
        check of the fence.
        """
        check = self._fence_check
        if self._fence is not None and not self._advanced:
            check = [Update(keys.context_key(self._fence.context), contexts.advanced(self._fence.number))]
        await self._commit(check, writes)
        self._advanced = True

    async def commit(self, *writes: Write) -> None:
        """Make the writes in one transaction, exactly once even if a response is lost.

        Raises LeaseLost if another lease holder has the context, WriteRefused if a condition of the writes fails.
        """
        await self._commit(self._fence_check, writes)

    async def _commit(self, check: Sequence[Write], writes: Sequence[Write]) -> None:
        token = str(uuid7())
        lost_answers = 0
        for attempt in range(MAX_ATTEMPTS if writes else 0):
            try:
                match [*check, *writes]:
                    case [Put(only_if=None) | Delete(only_if=None) | Update(change=Change(only_if=None)) as write]:
                        await self._table.write(write)
                    case all_writes:
                        await self._table.transact(all_writes, token=token)
            except WriteRefused as refused:
                if check and refused.failed(0):
                    raise LeaseLost("Another holder runs this context now.") from None
                if not refused.is_conflict:
                    raise
            except StoreUnavailable:
                lost_answers += 1
                if lost_answers == MAX_LOST_ANSWERS:
                    raise
            else:
                return
            await jitter(attempt)
        if writes:
            raise StoreUnavailable("Too many transactions write this context at once.")
