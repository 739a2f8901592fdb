"""What an operator sees of the table beside the ports: a context and when it is due, and whatever only a scan can find."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aion_core.aws import items, keys
from aion_core.aws.client import Calls
from aion_core.aws.contexts import Contexts
from aion_core.aws.items import Item
from aion_core.aws.push_writes import delivery_of
from aion_core.aws.table import Table
from aion_core.ports import Clock, ContextKey, Delivery, Head, TaskKey
from aion_core.tasks.contexts import ContextRecord, moment


@dataclass(frozen=True, slots=True)
class SeenContext:
    """A context, and when somebody ought to look after it."""

    record: ContextRecord
    due_at: datetime | None


class Inspection:
    """Reads one table, and nothing in it that is secret."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, table: str) -> None:
        self._dynamodb, self._table = dynamodb, table
        self._reads = Table(dynamodb, clock, name=table)
        self._contexts = Contexts(dynamodb, self._reads, clock)

    async def context(self, context: ContextKey) -> SeenContext | None:
        """Return the context as it is now, None where there never was one, or it is long gone."""
        item = await self._reads.get(keys.context_key(context), expired=True)
        if item is None:
            return None
        record = items.context_of(item, lives=self._reads.lives(item))
        due_at = moment(int(item["due_at"]["N"])) if "due_at" in item and not record.expired else None
        return SeenContext(record, due_at)

    async def due_events(self, task: TaskKey) -> list[int]:
        """Return the numbers of the task's events that some webhook may not have passed."""
        first, last = keys.event_sort(0), keys.event_sort(9_999_999_999)
        found = await self._reads.query(keys.task_partition(task), first, last)
        return [int(item["sk"]["S"].split("#")[1]) for item in found if "due_at" in item]

    async def tasks(self, task_id: str = "") -> AsyncIterator[Head]:
        """Yield the heads of all tasks, or of those of this id, whosever they are; reads the whole table."""
        heads = {"FilterExpression": "begins_with(pk, :tasks) AND sk = :sort"}
        async for item in self._scan(heads, keys.HEAD):
            key = keys.task_of(item)
            if task_id in ("", key.task_id):
                yield items.head_of(key, item)

    async def deliveries(self, task_id: str = "") -> AsyncIterator[Delivery]:
        """Yield how far each push config has come, of the tasks of this id, or of all; reads the whole table."""
        configs = {"FilterExpression": "begins_with(pk, :tasks) AND begins_with(sk, :sort)"}
        async for item in self._scan(configs, keys.push_sort("")):
            task = keys.task_of(item)
            if task_id in ("", task.task_id):
                yield delivery_of(task, item)

    async def _scan(self, only: Mapping[str, str], sort: str) -> AsyncIterator[Item]:
        """Yield the living items that pass this filter, of tasks and of this sort key, or of what begins with it."""
        start: dict[str, Any] = {}
        while True:
            page = await self._dynamodb(
                "scan",
                TableName=self._table,
                ExpressionAttributeValues={":tasks": items.text(keys.TASKS), ":sort": items.text(sort)},
                **only,
                **start,
            )
            for item in filter(self._reads.lives, page["Items"]):
                yield item
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
