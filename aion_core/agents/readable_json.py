"""JSON form of any stored value, for people to read."""

from typing import Any

from google.protobuf.message import Message as ProtoMessage
from pydantic_core import to_jsonable_python

from aion_core.protocol.types import to_json


def readable_json(value: Any) -> Any:
    """Return the value as plain JSON. An object without a JSON form is its `repr`, and bytes are base64."""
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings", fallback=_readable)
    except ValueError:  # a circular reference
        return repr(value)


def _readable(value: Any) -> Any:
    return to_json(value) if isinstance(value, ProtoMessage) else repr(value)
