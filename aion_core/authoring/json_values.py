"""An author's plain values as JSON can hold them: checked, and copied. Pure."""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import Error, ParseDict
from google.protobuf.struct_pb2 import Value

MAX_DEPTH = 30
"""How deep objects and lists may nest.

protobuf reads back what is at most 100 levels deep, and an object in A2A's data or metadata is three of them: what is
deeper could be recorded, and never be read again.
"""

_URL_SAFE = str.maketrans("-_", "+/")


def as_json(value: Any, name: str) -> Any:
    """Return a copy of the value as it comes back from JSON; raises ValueError where it cannot be written so."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} has to be plain JSON: {first_line(error)}.") from error


def as_value(value: Any, name: str) -> Value:
    """Return the value as A2A carries it; raises ValueError where it cannot.

    A2A's numbers are doubles: an integer beyond 2**53 whose last digits matter is to be sent as text.
    """
    written = as_json(value, name)
    if is_too_deep(written):
        raise ValueError(f"{name} nests more than {MAX_DEPTH} levels deep: send it flatter, or as a file.")
    try:
        return ParseDict(written, Value())
    except (Error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{name} cannot be carried by A2A: {first_line(error)}.") from error


def with_integers(value: Any) -> Any:
    """Return the JSON value with its integers back: A2A's numbers are doubles, and nothing is the 1.0th of a list."""
    if isinstance(value, Mapping):
        return {key: with_integers(held) for key, held in value.items()}
    if isinstance(value, list):
        return [with_integers(held) for held in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def bytes_of(base64: str, name: str) -> bytes:
    """Return what the base64 text stands for, in either alphabet, with or without line breaks.

    Raises ValueError for anything else, so that a damaged file is not sent.
    """
    if not isinstance(base64, str):
        raise ValueError(f"{name} is {type(base64).__name__}: give it as str, `base64.b64encode(content).decode()`.")
    try:
        return b64decode("".join(base64.split()).translate(_URL_SAFE), validate=True)
    except ValueError as error:
        raise ValueError(f"{name} is not base64: {first_line(error)}.") from error


def is_too_deep(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return whether the JSON value nests deeper than so many levels."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return levels == 0 or any(is_too_deep(held, levels - 1) for held in value)


def first_line(error: Exception) -> str:
    """Return what an error says, as it fits into a sentence of ours."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
