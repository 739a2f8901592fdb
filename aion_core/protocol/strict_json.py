"""JSON of a client, parsed strictly and within limits."""

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable
from math import isinf
from typing import Any, NoReturn

import msgspec
from a2a.utils.errors import InvalidParamsError, InvalidRequestError, JSONParseError

from aion_core.protocol.errors import MAX_TEXT, invalid_params
from aion_core.protocol.message_json import MAX_EXACT
from aion_core.protocol.text import is_text

MAX_DEPTH = 32
"""Maximum nesting of a client's JSON. Protobuf can parse about 31 levels of JSON in a message: each level takes three
of its 100 nested messages. Python has no setting for this limit. A stored message must be parseable."""

MAX_VALUES = 5_000
"""Maximum number of values in a client's JSON. Members, items, objects and lists count. Parsers need a hundred times
the memory of a text with many small values; counting the values in the bytes takes about ten milliseconds."""


class _Unusable(msgspec.Struct, frozen=True):
    """Placeholder for an invalid JSON number. `check_json` refuses it, so that the other values are known before."""

    problem: str


class _Repeated(dict[str, Any]):
    """Placeholder for an object with a repeated key, without that key. It is refused as for `_Unusable`."""


def strict_json(text: bytes, name: str, *, most_values: int = MAX_VALUES) -> Any:
    """Return a client's JSON after all checks. Raises the errors of `parse_json` and `check_json`."""
    parsed = parse_json(text, name, most_values=most_values, parse_int=int)
    check_json(parsed, name)
    return parsed


def parse_json(
    text: bytes,
    name: str,
    *,
    remedy: str = "send fewer.",
    most_values: int = MAX_VALUES,
    parse_int: Callable[[str], Any] | None = None,
) -> Any:
    """Parse a client's JSON, such as a request body; `check_json` completes the checks.

    Errors contain the `name` of the text, and for a text with too many values the `remedy`. `parse_int` converts the
    digits of an integer; by default, integers above 2^53 are refused, because doubles cannot represent them. Raises
    JSONParseError, or InvalidParamsError for a text with too many values or levels.
    """
    if not text:
        raise JSONParseError(f"The {name} is empty: send a JSON object.")
    check_values(text, name, remedy, most_values)
    try:
        return json.loads(
            (text[3:] if text[:3] == BOM_UTF8 else text).decode("utf-8"),  # RFC 8259 8.1 allows to ignore a BOM
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
            parse_int=parse_int or _integer,
            parse_float=_float,
        )
    except UnicodeDecodeError as error:
        raise JSONParseError(f"The {name} is not UTF-8: see byte {error.start}.") from error
    except json.JSONDecodeError as error:
        raise JSONParseError(
            f"The {name} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except ValueError as error:
        raise JSONParseError(f"The {name} is not JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep(name) from error


def check_values(text: bytes, name: str, remedy: str, most: int = MAX_VALUES) -> None:
    """Raise InvalidParamsError for JSON with too many values. The text may otherwise be invalid JSON."""
    # Remove the escapes, so that each quotation mark is the beginning or the end of a text.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    # Refuse a text with too many quotation marks: each value follows a comma or a bracket and has at most two texts
    # (its key and itself), with two quotation marks each.
    if plain.count(b'"') <= 4 * most + 4:
        outside = b"".join(plain.split(b'"')[::2])
        if sum(map(outside.count, (b",", b"{", b"["))) <= most:
            return
    raise InvalidParamsError(f"The {name} has more than {most} values: {remedy}")


def check_json(parsed: Any, name: str) -> None:
    """Check JSON from `parse_json`. Raises InvalidRequestError if an object repeats a key.

    Raises InvalidParamsError if it is nested too deeply, or has a number beyond a double or a lone surrogate.
    """
    level = [parsed]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            match value:
                case _Repeated():
                    raise InvalidRequestError(f"An object of the {name} has the same key twice.")
                case dict():
                    below.extend(value)
                    below.extend(value.values())
                case list():
                    below.extend(value)
                case str() if not value.isascii() and not is_text(value):
                    message = f"A text of the {name} has half a surrogate pair (\\ud800 to \\udfff)."
                    raise invalid_params(message, _path_of(value, parsed))
                case _Unusable():
                    raise invalid_params(f"The {name} has {value.problem}", _path_of(value, parsed))
        if not below:
            return
        level = below
    raise _too_deep(name)


def _too_deep(name: str) -> InvalidParamsError:
    return InvalidParamsError(f"The {name} is nested more than {MAX_DEPTH} levels deep.")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) == len(pairs):
        return mapping
    times = Counter(key for key, _ in pairs)
    return _Repeated({key: value for key, value in pairs if times[key] == 1})


def _float(digits: str) -> float | _Unusable:
    number = float(digits)
    return _Unusable("a number too large for JSON's doubles: send it as a string.") if isinf(number) else number


def _integer(digits: str) -> int | _Unusable:
    # Check the length first, because Python raises ValueError above 4300 digits.
    if len(digits) > 17 or abs(number := int(digits)) > MAX_EXACT:
        return _Unusable("an integer above 2^53: send it as a string.")
    return number


def _path_of(found: Any, parsed: Any) -> str:
    """Return the path of a value in the parsed JSON, within JSON-RPC's params. A key has the path of its object."""
    # Search level by level like `check_json`: Python may use one object for equal texts, and the first is meant.
    level = [(parsed, "")]
    for value, path in level:
        if value is found:
            is_rpc = isinstance(parsed, dict) and "jsonrpc" in parsed
            return path.removeprefix(".").removeprefix("params." if is_rpc else "")
        if isinstance(value, dict):
            level += [(key, path) for key in value]
            level += [(item, f"{path}.{key}"[: 2 * MAX_TEXT]) for key, item in value.items()]
        elif isinstance(value, list):
            level += [(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return ""
