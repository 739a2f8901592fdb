"""JSON of the SDK's models of v0.3."""

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

from aion_core.protocol.message_json import with_integers

M = TypeVar("M", bound="BaseModel")

DATA_PART_MARKER = "data_part_compat"
"""Metadata key that the SDK adds to a v0.3 data part if its data is not an object in v1.0."""


def v03_json(model: "BaseModel") -> Any:
    """Return a v0.3 model of the SDK as JSON, with whole numbers as integers.

    In v0.3 the data of a part must be an object. Other v1.0 data is in its field `value`. The SDK marks such
    data in the part's metadata. The marker is removed.
    """
    return with_integers(without_marker(model).model_dump(mode="json", by_alias=True, exclude_none=True))


def without_marker(model: M) -> M:
    """Remove the key DATA_PART_MARKER, which the SDK adds, from the data parts of a v0.3 model. Return the model."""
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
            field.pop(DATA_PART_MARKER, None)
            value.metadata = field or None
        else:
            _remove_marker(field)
