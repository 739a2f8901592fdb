"""DynamoDB request parameters: values and keys as DynamoDB JSON, conditions and changes as expressions. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aion_core.errors import StoreCorrupt
from aion_core.ports.table import (
    PARTITION,
    SORT,
    Absent,
    AtMost,
    Both,
    Change,
    Condition,
    ConditionCheck,
    Delete,
    Either,
    Equals,
    Exists,
    Item,
    Key,
    MoreThan,
    NotEmpty,
    OneOf,
    Put,
    ShorterThan,
    Update,
    Write,
)

Attribute = dict[str, Any]
"""Value in DynamoDB JSON, such as `{"S": "text"}`."""

# Encoders by exact type, since a bool is an int too. They are much faster than boto3's, and make no Decimals.
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

    DynamoDB reserves 573 attribute names, and refuses unused values.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Attribute] = {}

    def name(self, attribute: str) -> str:
        """Return the placeholder for an attribute's name, such as `#0`."""
        return self._names.setdefault(attribute, f"#{len(self._names)}")

    def names(self, attributes: Iterable[str]) -> str:
        """Return a projection expression for reading only these attributes."""
        return ", ".join(map(self.name, attributes))

    def value(self, value: Any) -> str:
        """Return a new placeholder for a value, such as `:0`."""
        placeholder = f":{len(self._values)}"
        self._values[placeholder] = encoded(value)
        return placeholder

    def parameters(self) -> dict[str, Any]:
        """Return the request's parameters with the names and values of the placeholders."""
        parameters: dict[str, Any] = {}
        if self._names:
            parameters["ExpressionAttributeNames"] = {short: name for name, short in self._names.items()}
        if self._values:
            parameters["ExpressionAttributeValues"] = self._values
        return parameters

    def condition(self, condition: Condition) -> str:
        """Return the expression of a condition, with placeholders."""
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
                # Emulators fail at the size of an absent attribute.
                short = self.name(name)
                return f"attribute_exists({short}) AND size({short}) > {self.value(0)}"
            case Both(()) | Either(()):
                return "()"  # An empty condition is an error: DynamoDB refuses this expression.
            case Both((only,)) | Either((only,)):
                return self.condition(only)
            case Both(conditions):
                return " AND ".join(map(self._conjunct, conditions))
            case Either(conditions):
                return " OR ".join(map(self.condition, conditions))

    def _conjunct(self, condition: Condition) -> str:
        """Return a condition's expression for use within AND, in parentheses if needed. DynamoDB refuses others."""
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
    """Return a write's transaction action, such as `Put`, and its parameters. A single request has the same ones."""
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
