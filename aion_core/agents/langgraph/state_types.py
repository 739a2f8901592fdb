"""The author's own classes that a graph's state may hold: those that checkpoints may hold and make again."""

import dataclasses
import enum
import inspect
import sys
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from langgraph.pregel import Pregel
from pydantic import BaseModel

from aion_core.agents.langgraph.graph import Graph


def state_types(graph: Graph) -> frozenset[type]:
    """Return the models, dataclasses and enums of the state's annotations, of their fields, and of the nodes' modules."""
    builder = getattr(graph, "builder", None)
    found: set[type] = set()
    for schema in getattr(builder, "schemas", {}):
        _collect(_annotations(schema), found)
        if _is_own(schema):
            found.add(schema)
    for module in _modules(graph):
        # A functional graph has no annotated state: what its tasks return is of its own module, most of the time.
        found.update(kind for kind in vars(module).values() if _is_own(kind) and kind.__module__ == module.__name__)
    for _, nested in graph.get_subgraphs():
        if isinstance(nested, Pregel):  # a RemoteGraph keeps its state itself
            found |= state_types(nested)
    return frozenset(found)


def classes_of(module: ModuleType) -> frozenset[type]:
    """Return the models, dataclasses and enums that the module names: a `response_format`, say, that no state tells."""
    named = (kind for kind in vars(module).values() if _is_own(kind))
    return frozenset(kind for kind in named if not kind.__module__.startswith(_FRAMEWORKS))


_FRAMEWORKS = ("lang", "pydantic", "enum")
"""What the modules of classes begin with that an author imports, and keeps no objects of."""


def _modules(graph: Graph) -> set[ModuleType]:
    """Return the modules that the functions of the graph's nodes are written in."""
    functions = [getattr(node.bound, name, None) for node in graph.nodes.values() for name in ("func", "afunc")]
    names = {getattr(inspect.unwrap(function), "__module__", "") for function in functions if callable(function)}
    return {sys.modules[name] for name in names if name in sys.modules and not name.startswith("lang")}


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
