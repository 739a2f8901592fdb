"""Classes of agents' authors in checkpoints: which annotations name one, and the shape of a class."""

import dataclasses
import enum
import sys
import typing
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from zlib import crc32

from pydantic import BaseModel


def is_author_class(annotation: Any) -> bool:
    """Return True for a class whose instances checkpoints may contain: a model, dataclass, enum or named tuple."""
    return isinstance(annotation, type) and (
        issubclass(annotation, BaseModel | enum.Enum)
        or dataclasses.is_dataclass(annotation)
        or is_named_tuple(annotation)
        or is_v1_model(annotation)
    )


def is_named_tuple(kind: type) -> bool:
    """Return True for a class of named tuples."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_v1_model(kind: type) -> bool:
    """Return True for a model of pydantic 1, which pydantic 2 contains. It is not imported for this."""
    v1 = sys.modules.get("pydantic.v1")
    return v1 is not None and issubclass(kind, v1.BaseModel)


@lru_cache(maxsize=256)
def annotated_classes(schema: Any) -> frozenset[type]:
    """Return the classes in a schema's annotations, and recursively in the annotations of these classes.

    The result is cached, because an agent's factory makes a new graph with the same schemas for each turn.
    """
    found: set[type] = set()
    collect_classes(annotations_of(schema), found)
    return frozenset(found)


def collect_classes(annotations: Iterator[Any], found: set[type]) -> None:
    """Add the classes in annotations to `found`, and recursively those in the annotations of these classes."""
    for annotation in annotations:
        collect_classes(iter(typing.get_args(annotation)), found)
        if is_author_class(annotation) and annotation not in found:
            found.add(annotation)
            collect_classes(annotations_of(annotation), found)


def annotations_of(schema: Any) -> Iterator[Any]:
    """Yield the annotations of a class or function; none if a name in them cannot be resolved."""
    try:
        yield from typing.get_type_hints(schema).values()
    except (NameError, TypeError):
        # Skip the schema if a name in an annotation cannot be resolved. Its values are restored as plain data.
        return


@lru_cache(maxsize=256)
def shape_of(kind: type) -> str:
    """Return a checksum of the definition of a class and of the classes in its annotations.

    It changes with the names and types of fields, with the fields that are required, and with the members of an enum.
    """
    text = "\n".join(sorted(map(_definition, {kind, *annotated_classes(kind)})))
    return f"{crc32(text.encode()):08x}"


def _definition(kind: Any) -> str:
    """Return the definition of one class as text. It contains no defaults, because their texts may have addresses."""
    parts: list[Any]
    if issubclass(kind, enum.Enum):
        members = kind.__members__.items()
        parts = [(name, member.value if type(member.value) in _LITERALS else "") for name, member in members]
    elif issubclass(kind, BaseModel):
        parts = [(name, field.alias, field.is_required()) for name, field in kind.model_fields.items()]
    elif is_v1_model(kind):
        parts = [(name, field.alias, field.required) for name, field in kind.__fields__.items()]
    elif dataclasses.is_dataclass(kind):
        parts = [(field.name, _is_required(field)) for field in dataclasses.fields(kind)]
    else:
        parts = [(name, name not in kind._field_defaults) for name in kind._fields]
    return f"{kind.__module__}.{kind.__qualname__} {parts} {list(annotations_of(kind))}"


_LITERALS = (str, int, float, bool, bytes, type(None))
"""Types of enum values whose texts are the same in each process."""


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
