"""JSON form of any stored value, for people who read it."""

from typing import Any

from google.protobuf.message import Message as ProtoMessage
from pydantic_core import to_jsonable_python

from aion_core.protocol.message_json import to_json


def readable_json(value: Any) -> Any:
    """Return the value as plain JSON. An object without a JSON form becomes its `repr`, and bytes become base64."""
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings", fallback=_readable)
    except ValueError:  # the value contains a circular reference
        return repr(value)


def _readable(value: Any) -> Any:
    return to_json(value) if isinstance(value, ProtoMessage) else repr(value)
