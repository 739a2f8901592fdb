"""Table port over DynamoDB: items and keys as DynamoDB JSON, and conditions and changes as expressions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aion_core.aws.client import AwsClient
from aion_core.errors import OtherLayout, StoreCorrupt
from aion_core.table.conditions import (
    Absent,
    AtMost,
    Both,
    Condition,
    Either,
    Equals,
    Exists,
    MoreThan,
    NotEmpty,
    OneOf,
    ShorterThan,
)
from aion_core.table.item import PARTITION, SORT, Index, Item, Key
from aion_core.table.port import Page
from aion_core.table.schema import ITEMS, TTL_ATTRIBUTE, VERSION, VERSION_ATTRIBUTE
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, SingleWrite, Update, Write

# ── Request parameters ────────────────────────────────────────────────────────────────────────────────────────────────

Attribute = dict[str, Any]
"""Value in DynamoDB JSON, such as `{"S": "text"}`."""

# Encoders by a value's exact type, because a bool is also an int. They are much faster than boto3's serializer, and
# convert numbers without Decimal.
_ENCODERS: dict[type, Callable[[Any], Attribute]] = {
    str: lambda value: {"S": value},
    int: lambda value: {"N": str(int(value))},
    bool: lambda value: {"BOOL": value},
    bytes: lambda value: {"B": value},
    list: lambda value: {"L": [encoded(member) for member in value]},
    dict: lambda value: {"M": encoded_item(value)},
    frozenset: lambda value: {"SS": sorted(value)},
}
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "S": str,
    "N": int,
    "BOOL": bool,
    "B": bytes,
    "L": lambda members: [decoded(member) for member in members],
    "M": lambda attributes: decoded_item(attributes),
    "SS": frozenset,
}


def encoded(value: Any) -> Attribute:
    """Convert a Python value to DynamoDB JSON. Raises TypeError for an unsupported type."""
    encode = _ENCODERS.get(type(value)) or next(filter(None, map(_ENCODERS.get, type(value).__mro__)), None)
    if encode is None:
        raise TypeError(f"an attribute cannot be a {type(value).__name__}")
    return encode(value)


def decoded(attribute: Attribute) -> Any:
    """Convert DynamoDB JSON to a Python value. Raises StoreCorrupt for an unsupported type."""
    [(kind, value)] = attribute.items()
    try:
        return _DECODERS[kind](value)
    except (KeyError, ValueError):
        raise StoreCorrupt("An item has an attribute of an unsupported type.") from None


def encoded_item(item: Mapping[str, Any]) -> dict[str, Attribute]:
    """Convert an item's attributes to DynamoDB JSON."""
    return {name: encoded(value) for name, value in item.items()}


def decoded_item(attributes: Mapping[str, Attribute]) -> Item:
    """Convert an item's DynamoDB JSON to its attributes."""
    return {name: decoded(attribute) for name, attribute in attributes.items()}


def encoded_key(key: Key) -> dict[str, Attribute]:
    """Convert an item's key to DynamoDB JSON."""
    return {PARTITION: {"S": key.partition}, SORT: {"S": key.sort}}


class Placeholders:
    """Placeholders for names and values in the expressions of one DynamoDB request.

    Names need placeholders because DynamoDB reserves 573 words. A request must define no placeholder that it does not
    use.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Attribute] = {}

    def name(self, attribute: str) -> str:
        """Return the placeholder for an attribute's name, such as `#0`."""
        return self._names.setdefault(attribute, f"#{len(self._names)}")

    def names(self, attributes: Iterable[str]) -> str:
        """Return a projection expression to read only these attributes."""
        return ", ".join(map(self.name, attributes))

    def value(self, value: Any) -> str:
        """Return a new placeholder for a value, such as `:0`."""
        placeholder = f":{len(self._values)}"
        self._values[placeholder] = encoded(value)
        return placeholder

    def parameters(self) -> dict[str, Any]:
        """Return the request parameters that define the placeholders of names and values."""
        parameters: dict[str, Any] = {}
        if self._names:
            parameters["ExpressionAttributeNames"] = {short: name for name, short in self._names.items()}
        if self._values:
            parameters["ExpressionAttributeValues"] = self._values
        return parameters

    def condition(self, condition: Condition) -> str:
        """Return the expression of a condition. It contains placeholders."""
        match condition:
            case Exists(name):
                return f"attribute_exists({self.name(name)})"
            case Absent(name):
                return f"attribute_not_exists({self.name(name)})"
            case Equals(name, value):
                return f"{self.name(name)} = {self.value(value)}"
            case AtMost(name, value):
                return f"{self.name(name)} <= {self.value(value)}"
            case MoreThan(name, value):
                return f"{self.name(name)} > {self.value(value)}"
            case OneOf(name, values):
                return f"{self.name(name)} IN ({', '.join(map(self.value, values))})"
            case ShorterThan(name, length):
                short = self.name(name)
                return f"attribute_not_exists({short}) OR size({short}) < {self.value(length)}"
            case NotEmpty(name):
                # Check first that the attribute exists, because emulators fail if `size()` has a missing attribute.
                short = self.name(name)
                return f"attribute_exists({short}) AND size({short}) > {self.value(0)}"
            case Both(()) | Either(()):
                # Leave an empty condition to DynamoDB, which refuses it, because it is a programming error.
                return "()"
            case Both((only,)) | Either((only,)):
                return self.condition(only)
            case Both(conditions):
                return " AND ".join(map(self._conjunct, conditions))
            case Either(conditions):
                return " OR ".join(map(self.condition, conditions))

    def _conjunct(self, condition: Condition) -> str:
        """Return a condition's expression for use within AND. DynamoDB refuses parentheses that are not needed."""
        expression = self.condition(condition)
        return f"({expression})" if _is_disjunction(condition) else expression

    def change(self, change: Change) -> str:
        """Return the update expression of a change, or "" if the change is empty."""
        name, value = self.name, self.value
        clauses = {
            "SET": [
                *(f"{name(each)} = {value(new)}" for each, new in change.values.items()),
                *(f"{name(each)} = if_not_exists({name(each)}, {value(new)})" for each, new in change.defaults.items()),
                *(
                    f"{name(each)} = if_not_exists({name(each)}, {value(0)}) + {value(more)}"
                    for each, more in change.add.items()
                ),
                *(
                    f"{name(each)} = list_append(if_not_exists({name(each)}, {value([])}), {value(list(more))})"
                    for each, more in change.append.items()
                ),
            ],
            "REMOVE": [*(f"{name(each)}[0]" for each in change.drop_first), *map(name, change.remove)],
            "ADD": [f"{name(each)} {value(members)}" for each, members in change.add_members.items()],
            "DELETE": [f"{name(each)} {value(members)}" for each, members in change.remove_members.items()],
        }
        return " ".join(f"{keyword} {', '.join(parts)}" for keyword, parts in clauses.items() if parts)


def _is_disjunction(condition: Condition) -> bool:
    match condition:
        case Both((only,)) | Either((only,)):
            return _is_disjunction(only)
        case ShorterThan() | Either():
            return True
    return False


def write_parameters(table: str, write: Write) -> tuple[str, dict[str, Any]]:
    """Return the transaction action of a write, such as `Put`, and its parameters. PutItem etc. take the same ones."""
    placeholders = Placeholders()
    parameters: dict[str, Any] = {"TableName": table}
    match write:
        case Put(key, item, only_if):
            kind, parameters["Item"] = "Put", encoded_key(key) | encoded_item(item)
        case Update(key, change):
            kind, parameters["Key"], only_if = "Update", encoded_key(key), change.only_if
            if expression := placeholders.change(change):
                parameters["UpdateExpression"] = expression
        case Delete(key, only_if):
            kind, parameters["Key"] = "Delete", encoded_key(key)
        case ConditionCheck(key, only_if):
            kind, parameters["Key"] = "ConditionCheck", encoded_key(key)
    if only_if is not None:
        parameters["ConditionExpression"] = placeholders.condition(only_if)
    return kind, parameters | placeholders.parameters()


# ── Table ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_RETURN_VALUES = {"Update": "ALL_NEW", "Delete": "ALL_OLD"}


class DynamoDBTable:
    """Table port implemented by one DynamoDB table (`ports.table.Table`)."""

    def __init__(self, calls: AwsClient, *, name: str) -> None:
        self._calls, self._name = calls, name

    async def get(self, key: Key) -> Item | None:
        """Read an item with GetItem. See `ports.table.Table.get`."""
        return self._item(await self._calls("get_item", **self._get(key)))

    def get_blocking(self, key: Key) -> Item | None:
        """Read an item with GetItem in the calling thread. See `ports.table.Table.get_blocking`."""
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
        """Read a page of items with Query. See `ports.table.Table.query`."""
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
        """Read a page of items with Query on an index. See `ports.table.Table.query_index`."""
        placeholders, options = Placeholders(), _page_options(newest_first=newest_first, limit=limit, after=after)
        options["IndexName"] = index.name
        if only_if is not None:
            options["FilterExpression"] = placeholders.condition(only_if)
        if count_only:
            options["Select"] = "COUNT"
        return await self._query(index, partition, first, last, placeholders, **options)

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
        consistent: bool = False,
    ) -> Page:
        """Read a page of all items with Scan. See `ports.table.Table.scan`."""
        placeholders, options = Placeholders(), _page_options(after=after)
        if attributes:
            options["ProjectionExpression"] = placeholders.names(attributes)
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
        """Put, update or delete one item. See `ports.table.Table.write`."""
        kind, parameters = write_parameters(self._name, write)
        if returning and kind in _RETURN_VALUES:
            parameters["ReturnValues"] = _RETURN_VALUES[kind]
        return self._item(await self._calls(f"{kind.lower()}_item", **parameters), "Attributes")

    def write_blocking(self, write: SingleWrite) -> None:
        """Put, update or delete one item in the calling thread. See `ports.table.Table.write_blocking`."""
        kind, parameters = write_parameters(self._name, write)
        self._calls.blocking(f"{kind.lower()}_item", **parameters)

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """Make all of the writes or none of them. See `ports.table.Table.transact`."""
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
