"""Evaluation of IAM policies, with the condition operators used in template.yaml.

moto evaluates actions and resources only, and ignores conditions of a role's policies.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

Statement = Mapping[str, Any]


@dataclass(frozen=True)
class Need:
    """Permission that a request needs: an action on a resource, with the values of condition keys."""

    action: str
    resource: str
    context: frozenset[tuple[str, str]] = frozenset()
    """Pairs of a condition key and one of its values."""

    def values(self, key: str) -> set[str]:
        """Return the values of a condition key."""
        return {value for name, value in self.context if name.lower() == key.lower()}


def is_allowed(statements: Sequence[Statement], need: Need) -> bool:
    """Return True if a statement allows the need and no statement denies it."""
    effects = {each["Effect"] for each in statements if applies(each, need)}
    return effects == {"Allow"}


def applies(statement: Statement, need: Need) -> bool:
    """Return True if the action, the resource and the conditions of a statement match the need."""
    return (
        any(_like(need.action.lower(), action.lower()) for action in listed(statement["Action"]))
        and any(_like(need.resource, resource) for resource in listed(statement["Resource"]))
        and all(_holds(*each, need) for each in _conditions(statement))
    )


def elements(statement: Statement) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each action, resource and condition value of a statement, with a copy of the statement that lacks it."""
    for part in ("Action", "Resource"):
        for value in listed(statement[part]):
            yield f"{part} {value}", {**statement, part: [each for each in listed(statement[part]) if each != value]}
    for operator, key, values in _conditions(statement):
        if "Not" in operator:
            # Keep the values of a negated operator, such as StringNotEquals: fewer values would allow more.
            continue
        for value in values:
            less = deepcopy(dict(statement))
            less["Condition"][operator][key] = [each for each in values if each != value]
            yield f"{key} {value}", less


def values_of(statement: Statement, key: str) -> list[str]:
    """Return the permitted values of a condition key, or `*` if the statement has no condition on this key."""
    return next((values for _, name, values in _conditions(statement) if name == key), ["*"])


def listed(value: Any) -> list[Any]:
    """Return the value as a list; return a list unchanged."""
    return value if isinstance(value, list) else [value]


def _conditions(statement: Statement) -> Iterator[tuple[str, str, list[str]]]:
    for operator, keys in statement.get("Condition", {}).items():
        for key, values in keys.items():
            yield operator, key, listed(values)


def _like(value: str, pattern: str) -> bool:
    return _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(each) or re.escape(each) for each in pattern), re.S)


_OPERATORS: Mapping[str, Callable[[str, Collection[str]], bool]] = {
    "StringEquals": lambda value, permitted: value in permitted,
    "StringNotEquals": lambda value, refused: value not in refused,
    "StringLike": lambda value, patterns: any(_like(value, each) for each in patterns),
    "ArnLike": lambda value, patterns: any(_like(value, each) for each in patterns),
}


def _holds(operator: str, key: str, values: Sequence[str], need: Need) -> bool:
    quantifier, _, name = operator.rpartition(":")
    matches, found = _OPERATORS[name], need.values(key)
    if quantifier == "ForAllValues":
        return all(matches(each, values) for each in found)
    assert not quantifier, operator
    assert len(found) < 2, need
    return all(matches(each, values) for each in found) if found else "Not" in name


def refusal(service: str, caller: str, need: Need) -> tuple[str, str, bytes]:
    """Return status, content type and body of AWS's response to a request without the needed permission."""
    text = f"User: {caller} is not authorized to perform: {need.action} on resource: {need.resource}"
    if service == "s3":
        return (
            "403 Forbidden",
            "application/xml",
            f"<Error><Code>AccessDenied</Code><Message>{text}</Message></Error>".encode(),
        )
    return (
        "400 Bad Request",
        "application/x-amz-json-1.0",
        json.dumps({"__type": "AccessDeniedException", "message": text}).encode(),
    )
