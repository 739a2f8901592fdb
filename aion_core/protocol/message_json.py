"""JSON of protobuf messages, with whole numbers as integers."""

import base64
from collections.abc import Callable, Mapping
from functools import cache, partial
from math import copysign, isfinite
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from aion_core.protocol.types import Part

MAX_EXACT = 2**53
"""Limit below which a double has every integer exactly. Protobuf's JSON values store all numbers as doubles."""


def to_json(message: AnyMessage) -> Any:
    """Return a protobuf message of A2A as JSON. Whole numbers in its data and metadata become integers.

    It is protobuf's MessageToDict in a third of the time. Raises ValueError for a number that JSON cannot express, such as
    NaN.
    """
    if (write := _OF_JSON.get(type(message))) is not None:
        return write(message)
    written: dict[str, Any] = {}
    for field, value in message.ListFields():
        name, write = _form(field)
        written[name] = value if write is None else write(value)
    return written


@cache
def _form(field: FieldDescriptor) -> tuple[str, Callable[[Any], Any] | None]:
    """Return a field's JSON name, and the function that writes its value; None for a value that is JSON as it is."""
    of_one: Callable[[Any], Any] | None = None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _, of_one = _form(field.message_type.fields_by_name["value"])
        return field.json_name, lambda members: {key: of_one(each) if of_one else each for key, each in members.items()}
    if field.message_type is not None:
        of_one = to_json
    elif field.enum_type is not None:
        of_one = partial(_name, {number: value.name for number, value in field.enum_type.values_by_number.items()})
    elif field.type == FieldDescriptor.TYPE_BYTES:
        of_one = _base64
    if not field.is_repeated:
        return field.json_name, of_one
    return field.json_name, lambda values: [of_one(each) for each in values] if of_one else list(values)


def _name(names: Mapping[int, str], number: int) -> str | int:
    return names.get(number, number)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _object(given: Struct) -> dict[str, Any]:
    return {key: _any(value) for key, value in given.fields.items()}


def _list(given: ListValue) -> list[Any]:
    return [_any(value) for value in given.values]


def _any(given: Value) -> Any:
    match kind := given.WhichOneof("kind"):
        case None | "null_value":
            return None
        case "struct_value":
            return _object(given.struct_value)
        case "list_value":
            return _list(given.list_value)
        case "number_value" if isfinite(given.number_value):
            return _integer(given.number_value)
        case "number_value":
            return MessageToDict(given)  # raises ValueError
        case _:
            return getattr(given, kind)


_OF_JSON: dict[type[AnyMessage], Callable[[Any], Any]] = {
    Struct: _object,
    ListValue: _list,
    Value: _any,
    Timestamp: Timestamp.ToJsonString,
}
"""Functions that write messages with a JSON form of their own, by the messages' types."""


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
                    to_json(each)
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


def _integer(value: float) -> int | float:
    is_whole = value.is_integer() and abs(value) < MAX_EXACT and (value != 0 or copysign(1, value) > 0)
    return int(value) if is_whole else value
