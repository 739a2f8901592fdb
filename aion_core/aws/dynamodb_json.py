"""Items in DynamoDB JSON, and back. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from aion_core.errors import StoreCorrupt
from aion_core.table.item import PARTITION, SORT, Item, Key

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
