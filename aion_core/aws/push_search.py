"""Finds push configs by their tasks, or all of them, for an operator: a scan, which reads the whole table."""

from collections.abc import AsyncIterator
from typing import Any

from aion_core.aws import items, keys
from aion_core.aws.client import Calls
from aion_core.aws.push_writes import delivery_of
from aion_core.aws.table import Table
from aion_core.ports import Clock, Delivery


class PushSearch:
    """The push configs of one table, whosever they are; what is secret in them is not read."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, table: str) -> None:
        self._dynamodb, self._table = dynamodb, table
        self._reads = Table(dynamodb, clock, name=table)

    async def deliveries(self, task_id: str = "") -> AsyncIterator[Delivery]:
        """Yield how far each config has come, of the tasks of this id, or of all."""
        start: dict[str, Any] = {}
        while True:
            page = await self._dynamodb(
                "scan",
                TableName=self._table,
                FilterExpression="begins_with(pk, :tasks) AND begins_with(sk, :configs)",
                ExpressionAttributeValues={
                    ":tasks": items.text(keys.TASKS),
                    ":configs": items.text(keys.push_sort("")),
                },
                **start,
            )
            for item in filter(self._reads.lives, page["Items"]):
                task = keys.task_of(item)
                if task_id in ("", task.task_id):
                    yield delivery_of(task, item)
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
