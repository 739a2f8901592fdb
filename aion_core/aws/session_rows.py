"""The rows of ADK's sessions: read consistently, written under the context's fence, kept as long as their head is."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from uuid import uuid4

from aion_core.aws import keys, writes
from aion_core.aws.client import TRIES, Calls, Refused, let_others_write, try_unheard_again
from aion_core.aws.context_writes import FENCE_IS_MINE
from aion_core.aws.items import Item
from aion_core.aws.session_items import SessionItems, revision_of
from aion_core.aws.table import Table
from aion_core.aws.writes import Write
from aion_core.checkpointing.turn import Fence
from aion_core.errors import LeaseLost, StoreCorrupt, StoreUnavailable

ROW_IS_THERE = "attribute_exists(pk)"

FIRST_PAGE, LARGEST_PAGE = 100, 1000
"""How many rows of a session a query reads, newest first."""

READS = 5
"""How often a session is read of which a part seems to be missing: a query may see a part of a transaction."""

ROWS_AT_ONCE = 50
"""How many rows one transaction deletes or renews: it may touch 4 MB."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A session as it lies in the table; of its events those that were asked for, oldest first."""

    head: Item
    state: Item | None
    events: Sequence[Item]


class SessionRows:
    """The sessions' rows of one table, for the holder of one fence; without a fence, nobody is kept from writing."""

    def __init__(
        self, dynamodb: Calls, reads: Table, made: SessionItems, *, table: str, fence: Fence | None = None
    ) -> None:
        self._dynamodb, self._reads, self._items = dynamodb, reads, made
        self._table, self._fence = table, fence
        self.renewed: dict[str, int] = {}
        """When this turn has renewed the rows of a session: the head says so with the next append."""

    async def transact(self, *changes: Write) -> None:
        """Make the changes, all or nothing; raises LeaseLost, Refused where one's condition does not hold."""
        guard = [self._check(self._fence)] if self._fence else []
        # The same at each try: one whose answer was lost is made once.
        token = str(uuid4())
        for attempt in range(TRIES):
            try:
                await self._dynamodb("transact_write_items", TransactItems=[*guard, *changes], ClientRequestToken=token)
            except Refused as refused:
                if guard and refused.failed(0):
                    raise LeaseLost("Another holder runs this context now.") from None
                if not refused.conflict:
                    raise
                await let_others_write(attempt)
            except StoreUnavailable as unheard:
                await try_unheard_again(attempt, unheard)
            else:
                return
        raise StoreUnavailable("The session is being written by too many at once.")

    async def read(self, thread: str, *, newest: int | None) -> Rows | None:
        """Return the session with its newest events, with all of them for None; None where it is not, or has expired.

        Raises StoreCorrupt where a part of it is missing.
        """
        for attempt in range(READS):
            found = await self._query(thread, newest=newest)
            if found is None:
                return None
            number = revision_of(found.head).number
            has_state = int(found.head["state_revision"]["N"]) >= 0
            if len(found.events) == min(number, number if newest is None else newest) and has_state == bool(
                found.state
            ):
                if self._fence is not None and self._items.renewed_long_ago(found.head):
                    await self._renew(thread)
                return found
            await let_others_write(attempt)
        raise StoreCorrupt("A part of the session is missing.")

    async def delete(self, thread: str) -> None:
        """Delete the session, there or not."""
        # The head first: cut short, it leaves no session with a part of its events, and those left expire.
        first = [keys.session_head_key(thread), keys.session_state_key(thread)]
        await self.transact(*(writes.delete(self._table, key) for key in first))
        pages = self._reads.pages(
            keys.session_partition(thread),
            keys.event_sort(0),
            keys.HEAD,
            limit=LARGEST_PAGE,
            ProjectionExpression="pk, sk",
        )
        found = [writes.delete(self._table, key) async for page in pages for key in page]
        for start in range(0, len(found), ROWS_AT_ONCE):
            await self.transact(*found[start : start + ROWS_AT_ONCE])

    async def _query(self, thread: str, *, newest: int | None) -> Rows | None:
        """Return what there is of the session, if it lives; its state only if it is the one that the head means."""
        head: Item | None = None
        state: Item | None = None
        events: list[Item] = []
        pages = self._reads.pages(
            keys.session_partition(thread),
            keys.event_sort(1) if newest != 0 else keys.HEAD,
            keys.SESSION_STATE,
            limit=FIRST_PAGE if newest is None else newest + 2,
            largest=LARGEST_PAGE,
            ScanIndexForward=False,
        )
        async with aclosing(pages):
            async for page in pages:
                for item in page:
                    sort = item["sk"]["S"]
                    if sort == keys.SESSION_STATE:
                        state = item
                    elif sort == keys.HEAD:
                        head = item
                    # Of an earlier session of this name, whose events are not all deleted yet, there may be more.
                    elif head is not None and len(events) != newest and sort == _next_older(head, events):
                        events.append(item)
                if head is None or not self._reads.lives(head):
                    return None
                if len(events) == newest:
                    break
        if head is None:
            return None
        if state is not None and (state["made"], state["revision"]) != (head["made"], head["state_revision"]):
            state = None
        return Rows(head, state, events[::-1])

    async def _renew(self, thread: str) -> None:
        """Keep the session's rows for longer than its next head will be, where they might not be."""
        pages = self._reads.pages(
            keys.session_partition(thread),
            keys.event_sort(0),
            keys.SESSION_STATE,
            limit=FIRST_PAGE,
            largest=LARGEST_PAGE,
        )
        rows = [item async for page in pages for item in page if item["sk"]["S"] != keys.HEAD]
        rows = [row for row in rows if self._items.is_to_renew(row)]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            await asyncio.gather(*map(self._items.renew_blob, some))
            try:
                await self.transact(*map(self._keep, some))
            except Refused:
                return  # deleted meanwhile
        self.renewed[thread] = self._items.now()

    def _keep(self, row: Item) -> Write:
        # No more than this of a row: it may be written otherwise meanwhile.
        key = {"pk": row["pk"], "sk": row["sk"]}
        expires = self._items.row_expires()
        return writes.update(self._table, key, "SET expires = :expires", only_if=ROW_IS_THERE, expires=expires)

    def _check(self, fence: Fence) -> Write:
        return writes.check(self._table, keys.context_key(fence.context), FENCE_IS_MINE, fence=fence.number)


def _next_older(head: Item, events: Sequence[Item]) -> str:
    """Return the sort key of the event before those, newest first."""
    return keys.event_sort(revision_of(head).number - len(events))
