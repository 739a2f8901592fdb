"""Values of items as DynamoDB stores them: their types, copies and sizes. Pure."""

from collections.abc import Mapping
from typing import Any

from aion_core.errors import StoreError

MAX_DIGITS = 38
MAX_DEPTH = 32
_LARGE = 10**MAX_DIGITS


def plain(value: Any, depth: int = 0) -> Any:
    """Return a deep copy of an attribute's value, with enums as plain values.

    Raises StoreError or TypeError if a table cannot store it.
    """
    if depth > MAX_DEPTH:
        raise invalid("a value is nested too deeply")
    match value:
        case str():
            utf8_size(value)
            return str.__str__(value)
        case dict():
            depth += 1
            if value and depth > MAX_DEPTH:
                raise invalid("a value is nested too deeply")
            return {
                name if type(name) is str and name else _name(name): (
                    member
                    # Return most values at once, because they are immutable and the table can store them unchanged.
                    if (kind := type(member)) is bytes
                    or kind is bool
                    or (kind is str and member.isascii())
                    or (kind is int and -_LARGE < member < _LARGE)
                    else plain(member, depth)
                )
                for name, member in value.items()
            }
        case list():
            return [plain(member, depth + 1) for member in value]
        case bool():
            return value
        case int():
            if abs(value) >= _LARGE and _digits(value) > MAX_DIGITS:
                raise invalid(f"a number has more than {MAX_DIGITS} digits")
            return int(value)
        case bytes():
            return bytes(value)
        case frozenset():
            if not value or not all(isinstance(member, str) for member in value):
                raise invalid("a set has at least one member, and texts only")
            return frozenset(plain(member) for member in value)
    raise TypeError(f"an attribute cannot be a {type(value).__name__}")


def copy_stored(value: Any) -> Any:
    """Return a deep copy of a value made by `plain`, without a second check."""
    if type(value) is dict:
        return {name: copy_stored(member) for name, member in value.items()}
    if type(value) is list:
        return [copy_stored(member) for member in value]
    return value


def value_size(value: Any) -> int:
    """Return the size of an attribute's value in bytes, by DynamoDB's rules."""
    kind = type(value)
    if kind is bytes or (kind is str and value.isascii()):
        return len(value)
    if isinstance(value, str):
        return utf8_size(value)
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return (_digits(value) + 1) // 2 + 1 + (value < 0)
    if isinstance(value, list):
        return 3 + sum([1 + value_size(member) for member in value])
    if isinstance(value, dict):
        return 3 + sum([1 + utf8_size(name) + value_size(member) for name, member in value.items()])
    return sum([utf8_size(member) for member in value])


def item_size(item: Mapping[str, Any]) -> int:
    """Return the size of an item in bytes, including the names of its attributes."""
    size = 0
    for name, value in item.items():
        kind = type(value)
        size += len(name) if name.isascii() else utf8_size(name)
        size += len(value) if kind is bytes or (kind is str and value.isascii()) else value_size(value)
    return size


def _digits(number: int) -> int:
    """Return the number of significant digits of an integer."""
    return len(str(abs(number)).rstrip("0"))


def is_same(one: Any, other: Any) -> bool:
    """Return True if DynamoDB regards these values as equal."""
    # Distinguish bool from int, because True == 1 in Python, but a DynamoDB number never equals a BOOL.
    return (type(one) is bool) == (type(other) is bool) and one == other


def number(value: Any) -> int | None:
    """Return the value if it is a number of DynamoDB; None otherwise."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def utf8_size(text: str) -> int:
    """Return the number of bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(_utf8(text))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise invalid("a text has no UTF-8") from error


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise invalid("the name of an attribute is a text that is not empty")
    return name


def invalid(sentence: str) -> StoreError:
    """Return the error of DynamoDB for a wrong request."""
    return StoreError(f"ValidationException: {sentence}")
