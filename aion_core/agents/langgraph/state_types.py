"""The author's own classes that a graph's state may hold, as its annotations tell; checkpoints may hold them then."""

import dataclasses
import enum
import typing
from collections.abc import Iterator
from typing import Any

from langgraph.pregel import Pregel
from pydantic import BaseModel


def state_types(graph: Pregel[Any, Any, Any, Any]) -> frozenset[type]:
    """Return the models, dataclasses and enums in the state's annotations, and in those of their fields."""
    builder = getattr(graph, "builder", None)
    found: set[type] = set()
    for schema in getattr(builder, "schemas", {}):
        _collect(_annotations(schema), found)
        if _is_own(schema):
            found.add(schema)
    for _, nested in graph.get_subgraphs():
        if isinstance(nested, Pregel):  # a RemoteGraph keeps its state itself
            found |= state_types(nested)
    return frozenset(found)


def _collect(annotations: Iterator[Any], found: set[type]) -> None:
    for annotation in annotations:
        _collect(iter(typing.get_args(annotation)), found)
        if _is_own(annotation) and annotation not in found:
            found.add(annotation)
            _collect(_annotations(annotation), found)


def _is_own(annotation: Any) -> bool:
    return isinstance(annotation, type) and (
        issubclass(annotation, BaseModel | enum.Enum) or dataclasses.is_dataclass(annotation)
    )


def _annotations(schema: Any) -> Iterator[Any]:
    try:
        yield from typing.get_type_hints(schema).values()
    except (NameError, TypeError):
        # A name that cannot be resolved here: what it stands for comes back as plain data.
        return
