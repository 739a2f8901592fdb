"""Writes of a turn that depend on the fence of its context: the fence is a condition of their transaction."""

from collections.abc import Sequence

from aion_core.aws import keys, writes
from aion_core.aws.client import TRIES, Calls, Refused, let_others_write
from aion_core.aws.context_writes import FENCE_IS_MINE
from aion_core.aws.writes import Write
from aion_core.checkpointing.turn import Fence
from aion_core.errors import LeaseLost, StoreError, StoreUnavailable


class FencedWrites:
    """Writes to one table, for the holder of one fence; without a fence, nobody is kept from writing."""

    def __init__(self, dynamodb: Calls, *, table: str, fence: Fence | None) -> None:
        self._dynamodb, self._table, self._fence = dynamodb, table, fence

    async def commit(self, *changes: Write) -> None:
        """Make the changes, all or nothing, if the fence still holds; raises LeaseLost if it does not."""
        for attempt in range(TRIES if changes else 0):
            try:
                await self._request(changes)
            except Refused as refused:
                if "ConditionalCheckFailed" in refused.reasons:
                    raise LeaseLost("Another holder runs this context now.") from None
                if not refused.conflict:
                    raise StoreError(f"A write was refused: {refused}") from refused
                await let_others_write(attempt)
            else:
                return
        if changes:
            raise StoreUnavailable("The context is being written by too many at once.")

    async def _request(self, changes: Sequence[Write]) -> None:
        if self._fence is None and len(changes) == 1:
            [(kind, parameters)] = changes[0].items()
            await self._dynamodb(f"{kind.lower()}_item", **parameters)
        else:
            guard = [self._check(self._fence)] if self._fence else []
            await self._dynamodb("transact_write_items", TransactItems=[*guard, *changes])

    def _check(self, fence: Fence) -> Write:
        return writes.check(self._table, keys.context_key(fence.context), FENCE_IS_MINE, fence=fence.number)
