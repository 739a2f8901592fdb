"""Reads from the one table: consistent, in pages, and blind to what has expired."""

from collections.abc import AsyncGenerator
from typing import Any

from aion_core.aws import items, keys
from aion_core.aws.client import Calls
from aion_core.aws.items import Item
from aion_core.ports import Clock
from aion_core.ports.schema import DUE, ENDS, ITEMS


class Table:
    """One table, as read at this clock's time."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, name: str) -> None:
        self._dynamodb, self._clock, self._name = dynamodb, clock, name

    async def get(self, key: keys.Key, *, expired: bool = False) -> Item | None:
        """Return the item, None where there is none, or, unless it is asked for, where it has expired."""
        found = await self._dynamodb("get_item", TableName=self._name, Key=key, ConsistentRead=True)
        item: Item | None = found.get("Item")
        return item if item is not None and (expired or self.lives(item)) else None

    async def query(self, partition: str, first: str, last: str) -> list[Item]:
        """Return the living items of the partition between the two sort keys, however many they are."""
        return [
            item async for page in self.pages(partition, first, last, limit=None) for item in page if self.lives(item)
        ]

    async def pages(
        self, partition: str, first: str, last: str, *, limit: int | None, largest: int | None = None, **options: Any
    ) -> AsyncGenerator[list[Item], None]:
        """Yield the items between the two sort keys, expired or not, a request at a time.

        The first page holds `limit` items at the most; each further one four times as many, up to `largest`.
        """
        start: dict[str, Any] = {}
        while True:
            size = {} if limit is None else {"Limit": limit}
            page = await self._dynamodb(
                "query",
                TableName=self._name,
                # What the last holder wrote before it lost the context must be seen: a step would run twice.
                ConsistentRead=True,
                KeyConditionExpression=f"{ITEMS.partition} = :pk AND {ITEMS.sort} BETWEEN :first AND :last",
                ExpressionAttributeValues={
                    ":pk": items.text(partition),
                    ":first": items.text(first),
                    ":last": items.text(last),
                },
                **size,
                **options,
                **start,
            )
            yield page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
            if limit is not None:
                limit = min(limit * 4, largest or limit)

    async def due(self, partition: str, limit: int) -> list[Item]:
        """Return what is overdue in a partition of the index `due`, the longest first: keys and times, which may lag."""
        page = await self._dynamodb(
            "query",
            TableName=self._name,
            IndexName=DUE.name,
            KeyConditionExpression=f"{DUE.partition} = :shard AND {DUE.sort} <= :now",
            ExpressionAttributeValues={
                ":shard": items.text(partition),
                ":now": items.number(items.milliseconds(self._clock.now())),
            },
            Limit=limit,
        )
        found: list[Item] = page["Items"]
        return found

    def lives(self, item: Item) -> bool:
        """Tell whether the item is still in force: DynamoDB deletes what has expired late, and one by one."""
        return ENDS not in item or int(item[ENDS]["N"]) > self._clock.now().timestamp()
