"""Reads for operators: contexts with their timers (times of wake-ups), and scans for tasks and push deliveries."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.engine.context.record import ContextRecord, record_of
from aion_core.engine.delivery.records import Delivery
from aion_core.engine.delivery.rows import delivery_of
from aion_core.engine.records import Head, Numbered
from aion_core.engine.task.head import head_of
from aion_core.engine.task.log import TaskLog
from aion_core.errors import StoreCorrupt, StoreError
from aion_core.table import keys
from aion_core.table.blobs import Blobs
from aion_core.table.item import PARTITION, SORT, Item, key_of
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import Reads, all_pages
from aion_core.table.schema import TTL_ATTRIBUTE, VERSION_ATTRIBUTE
from aion_core.table.times import moment

HEAD_ATTRIBUTES = (
    "agent",
    "context_id",
    "state",
    "timestamp",
    "generation",
    "fence",
    "push_epoch",
    "push_events",
    "calls",
)
"""The attributes of an item that hold a task's head."""

DELIVERY_ATTRIBUTES = (
    "after", "cursor", "tries", "failure", "dead", "dead_from", "disabled", "revision",
    "next_at", "claimed_until", "due_at",
)  # fmt: skip
"""The attributes of a push config's item that hold its delivery."""


class ContextStatus(Struct, frozen=True):
    """Record of a context, with the time `due_at` of its timer (next wake-up), if it has one."""

    record: ContextRecord
    due_at: datetime | None


class Inspection:
    """Reads of one table for operators. They return no secrets."""

    def __init__(self, table: Table, blobs: Blobs, clock: Clock) -> None:
        self._table, self._clock, self._reads = table, clock, Reads(table, clock)
        self._log = TaskLog(self._reads, blobs)

    async def context(self, context: ContextKey) -> ContextStatus | None:
        """Return the status of a context, None if missing. If expired, it has only the fence and the queue version."""
        item = await self._table.get(keys.context_key(context))
        if item is None:
            return None
        record = record_of(item, int(self._clock.now().timestamp()))
        due_at = moment(item["due_at"]) if "due_at" in item and not record.expired else None
        return ContextStatus(record, due_at)

    async def events_with_timers(self, task: TaskKey) -> list[int]:
        """Return the numbers of the task's events that have timers: not every webhook may have received them."""
        first, last = keys.event_sort(0), keys.event_sort(9_999_999_999)
        found = await self._reads.query(keys.task_partition(task), first, last)
        return [int(item[SORT].split("#")[1]) for item in found if "due_at" in item]

    async def readable_events(self, head: Head) -> tuple[list[Numbered], dict[int, StoreError]]:
        """Return the readable events of a task, and the error of each other event by its number.

        The task's log is not readable if one of them is not. Raises StoreError if the table cannot be read.
        """
        first, last = keys.event_sort(1), keys.event_sort(head.generation)
        rows = {item[SORT]: item for item in await self._reads.query(keys.task_partition(head.key), first, last)}

        async def read(number: int) -> Numbered | StoreError:
            item = rows.get(keys.event_sort(number))
            try:
                return await self._log.rows.event(number, item) if item is not None else StoreCorrupt("It is missing.")
            except StoreError as error:
                return error

        found = await asyncio.gather(*map(read, range(1, head.generation + 1)))
        errors = {number: each for number, each in enumerate(found, start=1) if isinstance(each, StoreError)}
        return [each for each in found if not isinstance(each, StoreError)], errors

    async def tasks(self, is_wanted: Callable[[str], bool] = lambda _: True) -> AsyncIterator[Head]:
        """Scan the table and yield the heads (state and last event number) of the tasks whose ids are wanted."""
        async for item in self._scan(HEAD_ATTRIBUTES):
            if item[SORT] == keys.HEAD and is_wanted((task := keys.task_of(key_of(item))).task_id):
                yield head_of(task, item)

    async def agent_of(self, task: TaskKey) -> str | None:
        """Return the id of the task's agent, or None for an expired or deleted task."""
        head = await self._log.head(task)
        return head.context.agent if head is not None else None

    async def deliveries(self, is_wanted: Callable[[str], bool] = lambda _: True) -> AsyncIterator[Delivery]:
        """Scan the table and yield the push deliveries of the tasks whose ids are wanted."""
        async for item in self._scan(DELIVERY_ATTRIBUTES):
            task = keys.task_of(key_of(item))
            if item[SORT].startswith(keys.push_sort("")) and is_wanted(task.task_id):
                yield delivery_of(task, item)

    async def _scan(self, attributes: tuple[str, ...]) -> AsyncIterator[Item]:
        """Scan the table and yield these attributes of all items in task partitions, without expired items."""
        names = (PARTITION, SORT, TTL_ATTRIBUTE, VERSION_ATTRIBUTE, *attributes)
        async for page in all_pages(lambda after: self._table.scan(after=after, attributes=names)):
            for item in page.items:
                if item[PARTITION].startswith(keys.TASKS) and self._reads.lives(item):
                    yield item
