"""The writes of a DynamoDB transaction, so that each reads as a sentence, and the conditions that many have. Pure."""

from typing import Any

from aion_core.aws.items import Item
from aion_core.aws.keys import Key

Write = dict[str, dict[str, Any]]

FIRST_TIME = "attribute_not_exists(pk)"
FIRST_TIME_IN_ITS_LIFE = "attribute_not_exists(pk) OR expires <= :now"
"""DynamoDB deletes what has expired late: it may be written over."""
DUE_AS_READ = "due_at = :read"

_RESERVED = {"#state": "state", "#timestamp": "timestamp", "#until": "until"}
"""Attribute names that are words of DynamoDB's expression language, and how expressions here name them."""


def put(table: str, key: Key, attributes: Item, *, only_if: str | None = None, **values: object) -> Write:
    """Return the write of a whole item; `values` are the condition's, without their colons."""
    write: dict[str, Any] = {"TableName": table, "Item": {**key, **attributes}}
    if only_if:
        write["ConditionExpression"] = only_if
    if values:
        write["ExpressionAttributeValues"] = {f":{name}": _attribute(value) for name, value in values.items()}
    return {"Put": write}


def update(table: str, key: Key, expression: str, *, only_if: str | None = None, **values: object) -> Write:
    """Return the change of an item; `values` are the expression's and the condition's, without their colons."""
    write: dict[str, Any] = {"TableName": table, "Key": key, "UpdateExpression": expression}
    if only_if:
        write["ConditionExpression"] = only_if
    if values:
        write["ExpressionAttributeValues"] = {f":{name}": _attribute(value) for name, value in values.items()}
    used = f"{expression} {only_if or ''}"
    names = {name: attribute for name, attribute in _RESERVED.items() if name in used}
    if names:
        write["ExpressionAttributeNames"] = names
    return {"Update": write}


def check(table: str, key: Key, only_if: str, **values: object) -> Write:
    """Return the part of a transaction that changes nothing, and lets the others be made only if the item is so."""
    # Named and valued as an update is, which needs an expression that a check has not.
    parameters = update(table, key, "", only_if=only_if, **values)["Update"]
    del parameters["UpdateExpression"]
    return {"ConditionCheck": parameters}


def delete(table: str, key: Key) -> Write:
    """Return the removal of an item, there or not."""
    return {"Delete": {"TableName": table, "Key": key}}


def _attribute(value: object) -> Item:
    match value:
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case dict():
            return value
        case _:
            raise TypeError(f"no attribute is made of {type(value).__name__}")
