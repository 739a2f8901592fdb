"""The lists of tasks on DynamoDB, with the promises of `ports.TaskList`: two indexes over the tasks' heads.

The indexes follow the table by a moment, so an entry may say what was: whoever loads the task sees what is.
"""

import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aion_core.aws import items, keys
from aion_core.aws.client import Calls, Refused
from aion_core.aws.items import Item
from aion_core.aws.table import Table
from aion_core.aws.writes import FIRST_TIME, put
from aion_core.errors import StoreCorrupt
from aion_core.ports import Clock, ContextKey, Place, TaskFilter
from aion_core.ports.schema import BY_AGENT, BY_CONTEXT, ENDS, STATE

READ = 1000
"""How many entries a query reads at the most where not all of them count: some 300 KB."""

SECRET_BYTES = 32

LIVES = f"{ENDS} > :now"
"""DynamoDB deletes expired items late, and one by one."""
IS_IN_STATE = "#state = :state"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DynamoDBTaskList:
    """`ports.TaskList` over the heads in one table."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, table: str) -> None:
        self._dynamodb, self._clock, self._name = dynamodb, clock, table
        self._table = Table(dynamodb, clock, name=table)
        self._secret: bytes | None = None

    async def page(self, tasks: TaskFilter, *, after: Place | None, limit: int) -> Sequence[Place]:
        """See `ports.TaskList.page`.

        While tasks change between two pages none is seen twice, unless its own status has gone back in time: one that
        moves goes to the front, where it is seen if nothing after it has been, and otherwise missed.
        """
        found: dict[str, Place] = {}
        # Without a state all entries count but those that have expired, and the one at `after`.
        first_read = limit + 1 if tasks.state is None else READ
        async for answer in self._read(tasks, after=after, first_read=first_read):
            for item in answer["Items"]:
                place = _place(item)
                # An index that is just being brought up to date may hold a task's old entry beside the new one.
                if place != after and place.task_id not in found:
                    found[place.task_id] = place
            if len(found) >= limit:
                break
        return list(found.values())[:limit]

    async def count(self, tasks: TaskFilter) -> int:
        """See `ports.TaskList.count`."""
        answers = self._read(tasks, after=None, first_read=None, Select="COUNT")
        return sum([answer["Count"] async for answer in answers])

    async def secret(self) -> bytes:
        """See `ports.TaskList.secret`."""
        if self._secret is None:
            self._secret = await self._kept_secret() or await self._make_secret()
        return self._secret

    async def _make_secret(self) -> bytes:
        made = secrets.token_bytes(SECRET_BYTES)
        attributes = {"v": items.number(items.VERSION), "secret": {"B": made}}
        write = put(self._name, keys.secret_key("page-tokens"), attributes, only_if=FIRST_TIME)
        try:
            await self._dynamodb("put_item", **write["Put"])
        except Refused:
            # Another process was first, or an earlier try of this very call was heard after all.
            kept = await self._kept_secret()
            if kept is None:
                raise StoreCorrupt("The secret of the page tokens is there and cannot be read.") from None
            return kept
        return made

    async def _kept_secret(self) -> bytes | None:
        item = await self._table.get(keys.secret_key("page-tokens"))
        secret: bytes | None = item["secret"]["B"] if item is not None else None
        return secret

    async def _read(
        self, tasks: TaskFilter, *, after: Place | None, first_read: int | None, **options: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the answers of one query after another, until the end of the index."""
        query = self._query(tasks, after) | options
        limit = {"Limit": first_read} if first_read else {}
        start: dict[str, Item] = {}
        while True:
            answer = await self._dynamodb("query", **query, **limit, **start)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
            if limit:
                limit = {"Limit": READ}

    def _query(self, tasks: TaskFilter, after: Place | None) -> dict[str, Any]:
        if tasks.context_id is None:
            index = BY_AGENT
            partition = keys.listing_agent(tasks.owner, tasks.agent)
        else:
            index = BY_CONTEXT
            partition = keys.listing_context(ContextKey(tasks.owner, tasks.agent, tasks.context_id))
        first = keys.listing_at(_milliseconds_from(tasks.since)) if tasks.since else keys.listing_at(0)
        last = keys.listing_at(items.milliseconds(after.timestamp), after.task_id) if after else keys.LAST
        values = {
            ":partition": items.text(partition),
            ":first": items.text(first),
            # What is between nothing is nothing, and to DynamoDB an error.
            ":last": items.text(max(first, last)),
            ":now": items.number(int(self._clock.now().timestamp())),
        }
        only = LIVES
        names: dict[str, Any] = {}
        if tasks.state is not None:
            only += f" AND {IS_IN_STATE}"
            values[":state"] = items.text(items.state_name(tasks.state))
            names = {"ExpressionAttributeNames": {"#state": STATE}}
        return {
            "TableName": self._name,
            "IndexName": index.name,
            "KeyConditionExpression": f"{index.partition} = :partition AND {index.sort} BETWEEN :first AND :last",
            "FilterExpression": only,
            "ExpressionAttributeValues": values,
            "ScanIndexForward": False,
            **names,
        }


def _place(item: Item) -> Place:
    listed = keys.listed(item[BY_AGENT.sort]["S"])
    return Place(_EPOCH + timedelta(milliseconds=listed.milliseconds), listed.task_id)


def _milliseconds_from(since: datetime) -> int:
    """Return the first whole millisecond that is not before the time."""
    return -((_EPOCH - since) // timedelta(milliseconds=1))
