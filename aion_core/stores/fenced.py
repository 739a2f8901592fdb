"""Writes of a turn that depend on the fence of its context."""

from uuid_utils.compat import uuid7

from aion_core.checkpointing.turn import Fence
from aion_core.errors import LeaseLost, StoreUnavailable
from aion_core.ports.table import Check, Equals, Table, Write, WriteRefused
from aion_core.stores import keys
from aion_core.stores.retries import TRIES, TRIES_UNHEARD, jitter


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
        for attempt in range(TRIES if writes else 0):
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
                if attempt + 1 >= TRIES_UNHEARD:
                    raise
            else:
                return
            await jitter(attempt)
        if writes:
            raise StoreUnavailable("The context is being written by too many at once.")
