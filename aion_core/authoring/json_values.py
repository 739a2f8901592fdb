"""An author's plain values as JSON can hold them: checked, and copied. Pure."""

import binascii
import json
from base64 import b64decode
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Value


def as_json(value: Any, name: str) -> Any:
    """Return a copy of the value as it comes back from JSON; raises ValueError where it cannot be written so."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} has to be plain JSON: {error}.") from error


def as_value(value: Any, name: str) -> Value:
    """Return the value as A2A carries it; raises ValueError where it cannot.

    A2A's numbers are doubles: an integer beyond 2**53 whose last digits matter is to be sent as text.
    """
    try:
        return ParseDict(as_json(value, name), Value())
    except (ParseError, OverflowError, RecursionError) as error:
        raise ValueError(f"{name} cannot be carried by A2A: {error}.") from error


def bytes_of(base64: str, name: str) -> bytes:
    """Return what the base64 text stands for; line breaks in it are allowed, as `base64.encodebytes` writes them.

    Raises ValueError for anything else: protobuf's own reader drops what it cannot read, and a file would be damaged.
    """
    if not isinstance(base64, str):
        raise ValueError(f"{name} is {type(base64).__name__}: give it as str, `base64.b64encode(content).decode()`.")
    try:
        return b64decode("".join(base64.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{name} is not base64 (the standard alphabet, padded with =): {error}.") from error
