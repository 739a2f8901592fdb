"""Author's classes whose instances the checkpoints of a graph may contain, from its annotations and modules."""

import inspect
import sys
from types import ModuleType
from typing import Any

from langgraph.pregel import Pregel

from aion_core.agents.langgraph.graph import Graph
from aion_core.state.langgraph.author_classes import (
    annotated_classes,
    annotations_of,
    collect_classes,
    is_author_class,
)


def stored_classes(graph: Graph, module: ModuleType | None) -> frozenset[type]:
    """Return the classes of the graph's state, of its tasks, and of the agent's module."""
    return state_types(graph) | task_types(graph, module) | (classes_of(module) if module is not None else frozenset())


def state_types(graph: Graph) -> frozenset[type]:
    """Return the classes in the state's annotations and in the modules of the nodes."""
    builder = getattr(graph, "builder", None)
    found: set[type] = set()
    for schema in getattr(builder, "schemas", {}):
        found |= annotated_classes(schema)
        if is_author_class(schema):
            found.add(schema)
    for module in _modules(graph):
        # Include the classes of the author's modules, because a functional graph has no annotated state and its tasks
        # mostly return such classes.
        found.update(
            kind for kind in vars(module).values() if is_author_class(kind) and kind.__module__ == module.__name__
        )
    for _, nested in graph.get_subgraphs():
        if isinstance(nested, Pregel):  # skip a RemoteGraph, because it stores its own state
            found |= state_types(nested)
    return frozenset(found)


def task_types(graph: Graph, module: ModuleType | None) -> frozenset[type]:
    """Return the classes that LangGraph's `@task` functions may return, from their annotations and modules.

    The tasks are in the graph's modules, in `module`, and in modules with tasks that these modules import.
    """
    found: set[type] = set()
    seen: set[ModuleType] = set()
    modules = [*_modules(graph), *([module] if module is not None else [])]
    while modules:
        current = modules.pop()
        seen.add(current)
        for task in _tasks(current):
            collect_classes(annotations_of(task.func), found)
            if (defined := sys.modules.get(getattr(task.func, "__module__", ""))) is not None:
                found |= classes_of(defined)
                modules += {defined} - seen
        modules += [
            value
            for value in vars(current).values()
            if isinstance(value, ModuleType) and value not in seen and _tasks(value)
        ]
    return frozenset(found)


def _tasks(module: ModuleType) -> list[Any]:
    # Do not import langgraph.func. If the author's code has not imported this module, there are no LangGraph tasks.
    task = getattr(sys.modules.get("langgraph.func"), "_TaskFunction", None)
    return [value for value in vars(module).values() if isinstance(value, task)] if task is not None else []


def classes_of(module: ModuleType) -> frozenset[type]:
    """Return the author's classes in a module, such as the class of a `response_format`."""
    named = (kind for kind in vars(module).values() if is_author_class(kind))
    return frozenset(kind for kind in named if not kind.__module__.startswith(_FRAMEWORKS))


_FRAMEWORKS = ("lang", "pydantic", "enum")
"""Module name prefixes of imported classes whose instances are never stored in checkpoints."""


def _modules(graph: Graph) -> set[ModuleType]:
    """Return the modules that define the functions of the graph's nodes."""
    functions = [getattr(node.bound, name, None) for node in graph.nodes.values() for name in ("func", "afunc")]
    names = {getattr(inspect.unwrap(function), "__module__", "") for function in functions if callable(function)}
    return {sys.modules[name] for name in names if name in sys.modules and not name.startswith("lang")}
