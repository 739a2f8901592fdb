"""Contexts as they are kept on DynamoDB, and the transactions that change them."""

from uuid import uuid4

from aion_core.aws import items, keys
from aion_core.aws.client import Calls
from aion_core.aws.table import Table
from aion_core.aws.writes import Write
from aion_core.ports import Clock, ContextKey
from aion_core.tasks.contexts import ContextRecord


class Contexts:
    """The contexts of one table."""

    def __init__(self, dynamodb: Calls, reads: Table, clock: Clock) -> None:
        self._dynamodb, self._reads, self._clock = dynamodb, reads, clock

    async def read(self, key: ContextKey) -> ContextRecord | None:
        """Return the context, None where there never was one."""
        # Expired or not: its fence has to grow for as long as the item is there.
        item = await self._reads.get(keys.context_key(key), expired=True)
        return items.context_of(item, lives=self._reads.lives(item)) if item is not None else None

    async def transact(self, *writes: Write, token: str | None = None) -> None:
        """Make the writes, all or nothing; raises Refused where one's condition does not hold.

        `token`: the same for the same writes, so that a repeat after a lost answer changes nothing.
        """
        await self._dynamodb(
            "transact_write_items", TransactItems=list(writes), ClientRequestToken=token or str(uuid4())
        )

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return items.milliseconds(self._clock.now())
