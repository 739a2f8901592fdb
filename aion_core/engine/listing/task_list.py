"""Lists of an owner's tasks, read from two indexes over the tasks' heads (current states).

The indexes lag behind the table, so an entry may be outdated. The caller must load each task from the table.
"""

import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.errors import StoreCorrupt
from aion_core.protocol.types import TaskState
from aion_core.table import keys
from aion_core.table.conditions import Absent, Both, Equals, MoreThan
from aion_core.table.item import LAST, Item
from aion_core.table.keys import ContextKey
from aion_core.table.port import Page, Table
from aion_core.table.reads import Reads
from aion_core.table.refusals import WriteRefused
from aion_core.table.schema import BY_AGENT, BY_CONTEXT, STATE, TTL_ATTRIBUTE
from aion_core.table.stamp import stamp
from aion_core.table.times import milliseconds
from aion_core.table.writes import Put


class TaskFilter(Struct, frozen=True):
    """Filter of an owner's tasks with one agent. Each optional field restricts the tasks further; None does not."""

    owner: str
    agent: str
    context_id: str | None = None
    state: TaskState | None = None
    since: datetime | None = None
    """Only tasks with a status of this time or later."""


class ListCursor(Struct, frozen=True, order=True):
    """Position of a task in a list that is sorted by status time, then by task id."""

    timestamp: datetime
    task_id: str


class ListedTasks(Struct, frozen=True):
    """Positions of tasks that match a filter, newest first."""

    found: Sequence[ListCursor]
    stopped_at: ListCursor | None = None
    """Position where a read with a filter on the state has stopped after MAX_READS queries, before it found enough."""


READ = 1000
"""Number of entries in a query with a filter on the state; together they have about 300 KB."""

MAX_READS = 10
"""Number of queries for one page or total: a rare state would else read all entries of an owner with a million tasks."""

MAX_TOTAL = 10_000
"""Number of tasks at which a total stops to count. Their index entries have 3 MB, about 400 read units."""

SECRET_BYTES = 32

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TaskList:
    """List of tasks, newest status first. It may lag behind the event log."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock, self._reads = table, clock, Reads(table, clock)
        self._secret: bytes | None = None

    async def page(self, tasks: TaskFilter, *, after: ListCursor | None, limit: int) -> ListedTasks:
        """Return the positions of up to `limit` matching tasks after `after`; None means from the newest task on.

        No task is on two pages, unless its status time moves backwards. A task with a new status moves to the first
        page, so a reader of later pages may miss it.
        """
        found: dict[str, ListCursor] = {}
        # Without a state, the filter removes only expired entries. Read one more entry, because `after` itself is read
        # again.
        first_read = limit + 1 if tasks.state is None else READ
        reads = 0
        async for page in self._pages(tasks, after=after, first_read=first_read):
            for entry in page.items:
                cursor = _cursor(entry)
                # Skip a task's old entry, because the index may still have it beside the new one.
                if cursor != after and cursor.task_id not in found:
                    found[cursor.task_id] = cursor
            reads += 1
            if len(found) >= limit:
                break
            if tasks.state is not None and reads == MAX_READS and isinstance(page.last_read, str):
                return ListedTasks(list(found.values()), _position(page.last_read))
        return ListedTasks(list(found.values())[:limit])

    async def count(self, tasks: TaskFilter) -> int:
        """Return the number of tasks that match the filter; MAX_TOTAL if there are more.

        With a filter on the state, only the newest tasks are counted: those whose entries are in MAX_READS megabytes.
        """
        total = reads = 0
        async for page in self._pages(tasks, after=None, first_read=None, count_only=True):
            total, reads = total + page.count, reads + 1
            if total >= MAX_TOTAL or (tasks.state is not None and reads == MAX_READS):
                break
        return min(total, MAX_TOTAL)

    async def secret(self) -> bytes:
        """Return the secret that signs this deployment's page tokens. It is generated once, at random."""
        if self._secret is None:
            self._secret = await self._stored_secret() or await self._make_secret()
        return self._secret

    async def _make_secret(self) -> bytes:
        made = secrets.token_bytes(SECRET_BYTES)
        key = keys.secret_key("page-tokens")
        try:
            await self._table.write(Put(key, {**stamp(None), "secret": made}, only_if=Absent()))
        except WriteRefused:
            # Read the stored secret: another process has stored it, or an earlier attempt of this process whose
            # response was lost.
            stored = await self._stored_secret()
            if stored is None:
                raise StoreCorrupt("The secret of the page tokens exists but cannot be read.") from None
            return stored
        return made

    async def _stored_secret(self) -> bytes | None:
        item = await self._reads.get(keys.secret_key("page-tokens"))
        secret: bytes | None = item["secret"] if item is not None else None
        return secret

    async def _pages(
        self, tasks: TaskFilter, *, after: ListCursor | None, first_read: int | None, count_only: bool = False
    ) -> AsyncIterator[Page]:
        """Yield the matching index entries page by page, newest first."""
        if tasks.context_id is None:
            index, partition = BY_AGENT, keys.listing_agent(tasks.owner, tasks.agent)
        else:
            context = ContextKey(tasks.owner, tasks.agent, tasks.context_id)
            index, partition = BY_CONTEXT, keys.listing_context(context)
        first = keys.listing_at(_milliseconds_from(tasks.since) if tasks.since else 0)
        last = keys.listing_at(milliseconds(after.timestamp), after.task_id) if after else LAST
        # Filter out expired entries, because DynamoDB deletes them late.
        only_if = [MoreThan(TTL_ATTRIBUTE, int(self._clock.now().timestamp()))]
        state = [Equals(STATE, TaskState.Name(tasks.state))] if tasks.state is not None else []
        limit, start = first_read, None
        while True:
            page = await self._table.query_index(
                index,
                partition,
                first,
                last,
                newest_first=True,
                limit=limit,
                after=start,
                only_if=Both((*only_if, *state)),
                count_only=count_only,
            )
            yield page
            if page.next is None:
                return
            start, limit = page.next, READ if limit else None


def _cursor(entry: Item) -> ListCursor:
    return _position(entry[BY_AGENT.sort])


def _position(listing_at: str) -> ListCursor:
    listed = keys.listed(listing_at)
    return ListCursor(_EPOCH + timedelta(milliseconds=listed.milliseconds), listed.task_id)


def _milliseconds_from(since: datetime) -> int:
    """Return the time as milliseconds since 1970, rounded up."""
    return -((_EPOCH - since) // timedelta(milliseconds=1))
