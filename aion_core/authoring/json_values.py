"""An author's values as JSON, and as protobuf values and bytes. They are checked, and never changed."""

import json
from base64 import b64decode
from typing import Any

from google.protobuf.json_format import Error, ParseDict
from google.protobuf.struct_pb2 import Value

MAX_DEPTH = 30
"""Maximum depth of nested objects and lists in an author's values.

protobuf reads at most 100 levels, and each object in A2A's data or metadata takes three levels. A deeper value could be
stored but never read again.
"""

_URL_SAFE = str.maketrans("-_", "+/")


def as_json(value: Any, name: str) -> Any:
    """Return a copy of the value as plain JSON. Raises ValueError for values that JSON cannot express."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} has to be plain JSON: {first_line(error)}.") from error


def as_value(value: Any, name: str) -> Value:
    """Convert a JSON value to a protobuf Value. Raises ValueError for a value that A2A cannot carry.

    A2A's numbers are doubles: send an integer beyond 2**53 as text if its last digits matter.
    """
    written = as_json(value, name)
    if is_too_deep(written):
        raise ValueError(f"{name} nests more than {MAX_DEPTH} levels deep: send it flatter, or as a file.")
    try:
        return ParseDict(written, Value())
    except (Error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{name} cannot be carried by A2A: {first_line(error)}.") from error


def bytes_of(base64: str, name: str) -> bytes:
    """Decode a base64 text in the standard or URL-safe alphabet, with or without line breaks.

    Raises ValueError for anything else, so that no damaged file is sent.
    """
    if not isinstance(base64, str):
        raise ValueError(f"{name} is {type(base64).__name__}: give it as str, `base64.b64encode(content).decode()`.")
    try:
        return b64decode("".join(base64.split()).translate(_URL_SAFE), validate=True)
    except ValueError as error:
        raise ValueError(f"{name} is not base64: {first_line(error)}.") from error


def is_too_deep(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return True if objects and lists in the JSON value nest deeper than `levels`."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return levels == 0 or any(is_too_deep(held, levels - 1) for held in value)


def first_line(error: Exception) -> str:
    """Return an error's first line without its full stop, for use within a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
