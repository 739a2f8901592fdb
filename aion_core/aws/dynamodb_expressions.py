"""Conditions and changes as expressions of DynamoDB's requests. Pure."""

from collections.abc import Iterable
from typing import Any

from aion_core.aws.dynamodb_json import Attribute, encoded, encoded_item, encoded_key
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
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write


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
