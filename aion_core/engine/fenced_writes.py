"""Writes of an agent's state during a turn: each checks the fence (fencing token) of the context in its transaction."""

from collections.abc import Sequence

from msgspec import Struct
from uuid_utils import uuid7

from aion_core.engine.context import changes, conditions
from aion_core.errors import LeaseLost, StoreUnavailable
from aion_core.table import keys
from aion_core.table.keys import ContextKey
from aion_core.table.port import Table
from aion_core.table.refusals import WriteRefused
from aion_core.table.retries import MAX_ATTEMPTS, MAX_LOST_ANSWERS, jitter
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write


class Fence(Struct, frozen=True):
    """Condition of a turn's writes: the context's fence (fencing token) still has this number."""

    context: ContextKey
    number: int


class FencedWrites:
    """Writes of a turn. With a `Fence`, each write checks that no other lease holder has the context."""

    def __init__(self, table: Table, fence: Fence | None) -> None:
        self._table, self._fence = table, fence
        self._fence_check: Sequence[Write] = (
            [ConditionCheck(keys.context_key(fence.context), conditions.fence_is(fence.number))] if fence else []
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
            check = [Update(keys.context_key(self._fence.context), changes.advanced(self._fence.number))]
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
