"""`Table` over DynamoDB."""

from collections.abc import Mapping, Sequence
from typing import Any

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_expressions import Placeholders, write_parameters
from aion_core.aws.dynamodb_json import Attribute, decoded_item, encoded_key
from aion_core.errors import OtherLayout
from aion_core.table.conditions import Condition
from aion_core.table.item import PARTITION, SORT, Index, Item, Key
from aion_core.table.port import Page
from aion_core.table.schema import ITEMS, TTL_ATTRIBUTE, VERSION, VERSION_ATTRIBUTE
from aion_core.table.writes import ConditionCheck, SingleWrite, Write

_RETURN_VALUES = {"Update": "ALL_NEW", "Delete": "ALL_OLD"}


class DynamoDBTable:
    """`Table` in one DynamoDB table."""

    def __init__(self, calls: AwsClient, *, name: str) -> None:
        self._calls, self._name = calls, name

    async def get(self, key: Key) -> Item | None:
        """Read an item with GetItem. See `Table.get`."""
        return self._item(await self._calls("get_item", **self._get(key)))

    def get_blocking(self, key: Key) -> Item | None:
        """Read an item with GetItem in the calling thread. See `Table.get_blocking`."""
        return self._item(self._calls.blocking("get_item", **self._get(key)))

    def _get(self, key: Key) -> dict[str, Any]:
        return {"TableName": self._name, "Key": encoded_key(key), "ConsistentRead": True}

    async def query(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        after: Any = None,
        keys_only: bool = False,
    ) -> Page:
        """Read a page of items with Query. See `Table.query`."""
        placeholders, options = Placeholders(), _page_options(newest_first=newest_first, limit=limit, after=after)
        if keys_only:
            options["ProjectionExpression"] = placeholders.names((PARTITION, SORT, TTL_ATTRIBUTE))
        return await self._query(ITEMS, partition, first, last, placeholders, ConsistentRead=True, **options)

    async def query_index(
        self,
        index: Index,
        partition: str,
        first: str | int,
        last: str | int,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        after: Any = None,
        only_if: Condition | None = None,
        count_only: bool = False,
    ) -> Page:
        """Read a page of items with Query on an index. See `Table.query_index`."""
        placeholders, options = Placeholders(), _page_options(newest_first=newest_first, limit=limit, after=after)
        options["IndexName"] = index.name
        if only_if is not None:
            options["FilterExpression"] = placeholders.condition(only_if)
        if count_only:
            options["Select"] = "COUNT"
        page = await self._query(index, partition, first, last, placeholders, **options)
        last_read = decoded_item(page.next)[index.sort] if page.next is not None else None
        return Page(page.items, page.count, page.next, last_read)

    async def _query(
        self, index: Index, partition: str, first: Any, last: Any, placeholders: Placeholders, **options: Any
    ) -> Page:
        if first > last:
            return Page([], 0)  # Return no items, because DynamoDB refuses a range with its end before its start.
        name, value = placeholders.name, placeholders.value
        # Set no lower bound if `first` is empty, because DynamoDB refuses comparisons with an empty text. No key is
        # empty, so the result is the same.
        span = f"<= {value(last)}" if first == "" else f"BETWEEN {value(first)} AND {value(last)}"
        options["KeyConditionExpression"] = (
            f"{name(index.partition)} = {value(partition)} AND {name(index.sort)} {span}"
        )
        return self._page(await self._calls("query", TableName=self._name, **options, **placeholders.parameters()))

    async def scan(
        self,
        *,
        segment: int = 0,
        segments: int = 1,
        after: Any = None,
        attributes: Sequence[str] = (),
        only_if: Condition | None = None,
        consistent: bool = False,
    ) -> Page:
        """Read a page of all items with Scan. See `Table.scan`."""
        placeholders, options = Placeholders(), _page_options(after=after)
        if attributes:
            options["ProjectionExpression"] = placeholders.names(attributes)
        if only_if is not None:
            options["FilterExpression"] = placeholders.condition(only_if)
        return self._page(
            await self._calls(
                "scan",
                TableName=self._name,
                Segment=segment,
                TotalSegments=segments,
                ConsistentRead=consistent,
                **options,
                **placeholders.parameters(),
            )
        )

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        """Put, update or delete one item. See `Table.write`."""
        kind, parameters = write_parameters(self._name, write)
        if returning and kind in _RETURN_VALUES:
            parameters["ReturnValues"] = _RETURN_VALUES[kind]
        return self._item(await self._calls(f"{kind.lower()}_item", **parameters), "Attributes")

    def write_blocking(self, write: SingleWrite) -> None:
        """Put, update or delete one item in the calling thread. See `Table.write_blocking`."""
        kind, parameters = write_parameters(self._name, write)
        self._calls.blocking(f"{kind.lower()}_item", **parameters)

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """Make all of the writes or none of them. See `Table.transact`."""
        if len(writes) == 1 and not token and not isinstance(writes[0], ConditionCheck):
            await self.write(writes[0])  # Use a single write, because it costs half as much as a transaction.
            return
        actions = [{kind: parameters} for kind, parameters in (write_parameters(self._name, each) for each in writes)]
        # Omit an empty token, so that botocore generates a new token for each call.
        options = {"ClientRequestToken": token} if token else {}
        await self._calls("transact_write_items", TransactItems=actions, **options)

    def _item(self, answer: Mapping[str, Any], field: str = "Item") -> Item | None:
        return self._decoded(answer[field]) if field in answer else None

    def _page(self, answer: Mapping[str, Any]) -> Page:
        items = [self._decoded(item) for item in answer.get("Items", ())]
        return Page(items, answer["Count"], answer.get("LastEvaluatedKey"))

    def _decoded(self, attributes: Mapping[str, Attribute]) -> Item:
        """Convert an item of an answer to its attributes. Raises OtherLayout for an item of another version."""
        item = decoded_item(attributes)
        # Items read without their version (index entries, keys only) are accepted: their content is read elsewhere.
        if item.get(VERSION_ATTRIBUTE, VERSION) != VERSION:
            raise OtherLayout(
                f"The table {self._name} has items of layout {item[VERSION_ATTRIBUTE]}, and this version of aion reads only "
                f"layout {VERSION}: delete the stack with its data (`aion destroy --data`) and deploy it again, or deploy "
                "another stack."
            )
        return item


def _page_options(*, newest_first: bool = False, limit: int | None = None, after: Any = None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if newest_first:
        options["ScanIndexForward"] = False
    if limit is not None:
        options["Limit"] = limit
    if after is not None:
        options["ExclusiveStartKey"] = after
    return options
