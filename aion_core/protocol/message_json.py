"""JSON of protobuf messages, with whole numbers as integers."""

from collections.abc import Mapping
from math import copysign
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import Struct, Value

from aion_core.protocol.types import Part

MAX_EXACT = 2**53
"""Limit below which a double has every integer exactly. Protobuf's JSON values store all numbers as doubles."""


def to_json(message: AnyMessage) -> Any:
    """Return a protobuf message as JSON. Whole numbers in its data and metadata become integers."""
    return write_integers(MessageToDict(message))


def prepare_event(message: AnyMessage) -> None:
    """Prepare an agent's event for clients: give each part without content an empty text, as v0.3 has no such part.

    Raises ValueError if the event contains a number that JSON cannot express, such as NaN.
    """
    if isinstance(message, Part) and message.WhichOneof("content") is None:
        message.text = ""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                # Check data and metadata, because only they can contain a number such as NaN.
                if isinstance(each, Struct | Value):
                    MessageToDict(each)
                else:
                    prepare_event(each)


def with_integers(value: Any) -> Any:
    """Return a JSON value with whole numbers below MAX_EXACT as integers. Protobuf has read them as doubles.

    Negative zero stays a float, because integers have no negative zero.
    """
    match value:
        # Test the most frequent types first, and Mapping last, because its check takes the longest.
        case str() | None | int():
            return value
        case float():
            return _integer(value)
        case list():
            return [item if type(item) is str else with_integers(item) for item in value]
        case dict() | Mapping():
            return {key: item if type(item) is str else with_integers(item) for key, item in value.items()}
    return value


def write_integers(value: Any) -> Any:
    """Return a JSON value as `with_integers` does, but change its own lists and dicts: an answer may be large."""
    kind = type(value)
    if kind is float:
        return _integer(value)
    if kind is dict or kind is list:
        for key, item in value.items() if kind is dict else enumerate(value):
            if type(item) is not str:
                value[key] = write_integers(item)
    return value


def _integer(value: float) -> int | float:
    is_whole = value.is_integer() and abs(value) < MAX_EXACT and (value != 0 or copysign(1, value) > 0)
    return int(value) if is_whole else value
