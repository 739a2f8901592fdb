"""JSON of the protocol's types, in v1.0 and v0.3. Every response, stream, notification and agent's input has this form. Pure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")

MAX_EXACT = 2**53
"""Limit of exact integers: protobuf's JSON values have doubles only."""


def to_json(message: AnyMessage) -> Any:
    """Return a protobuf message as JSON. Whole numbers in its data and metadata are integers."""
    return with_integers(MessageToDict(message))


def with_integers(value: Any) -> Any:
    """Return a JSON value with its whole numbers below MAX_EXACT as integers. Protobuf has read them as doubles."""
    # The check for Mapping takes most of the time, so it is the last.
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < MAX_EXACT else value
    if isinstance(value, list):
        return [with_integers(item) for item in value]
    if isinstance(value, dict | Mapping):
        return {key: with_integers(item) for key, item in value.items()}
    return value


_MARKER = "data_part_compat"
"""Key of the SDK in the metadata of a v0.3 data part. It marks data that is no object in v1.0."""


def v03_json(model: "BaseModel") -> Any:
    """Return one of the SDK's v0.3 models as JSON, with whole numbers as integers.

    The data of a v0.3 part is an object. Other data of v1.0 is its `value`, without the SDK's marker in the metadata.
    """
    return with_integers(without_marker(model).model_dump(mode="json", by_alias=True, exclude_none=True))


def without_marker(model: M) -> M:
    """Remove the SDK's marker from the metadata of all data parts in a v0.3 model. Return the model."""
    _remove_marker(model)
    return model


def _remove_marker(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _remove_marker(item)
        return
    for name in getattr(type(value), "model_fields", ()):
        field = getattr(value, name)
        if name == "metadata" and getattr(value, "kind", "") == "data" and field:
            field.pop(_MARKER, None)
            value.metadata = field or None
        else:
            _remove_marker(field)
