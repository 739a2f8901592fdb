"""Search for the only agent of a module."""

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from aion_core.errors import AgentLoadError
from aion_core.loading.frameworks import framework_of
from aion_core.loading.importing.syntax import imports_in, parsed
from aion_core.loading.load_errors.source_lines import assignment_line, source_location
from aion_core.loading.objects.servers import executor_in, is_server


def only_agent(module: ModuleType, path: str, folder: Path, *, of_folder: bool = False) -> Any:
    """Return the only agent among the module's instances, or else among its classes; None if there is none.

    An imported agent counts only if the module itself defines no instance. With `of_folder`, an ADK `app` or
    `root_agent` of the module has precedence, as in `adk web`. Raises AgentLoadError for several agents.
    """
    if of_folder:
        known = (getattr(module, name, None) for name in ("app", "root_agent"))
        if (named := next((agent for agent in known if framework_of(agent) == "adk"), None)) is not None:
            return named
    imported = _imported_names(module)
    agents = {name: value for name, value in vars(module).items() if framework_of(value)}
    instances = {name: value for name, value in agents.items() if not isinstance(value, type)}
    # A server counts by its executor, which often has no name of its own.
    instances |= {name: value for name, value in vars(module).items() if _has_executor(value)}
    classes = {name: value for name, value in agents.items() if getattr(value, "__module__", "") == module.__name__}
    own = {name: value for name, value in instances.items() if name not in imported}
    bases = {id(base) for value in classes.values() if isinstance(value, type) for base in value.__mro__[1:]}
    concrete = {
        name: value for name, value in classes.items() if not inspect.isabstract(value) and id(value) not in bases
    }
    found = next(filter(None, map(_without_parts, (own, instances, concrete, classes))), {})
    if len(found) > 1:
        raise AgentLoadError(
            f"{path} holds several agents: {', '.join(found)}",
            do=f"Name one, as in {path}:{_likeliest(found)}.",
            **source_location(module.__file__, [assignment_line(module, name) for name in found], folder),
        )
    return next(iter(found.values()), None)


def _has_executor(value: object) -> bool:
    return is_server(value) and executor_in(value) is not None


def _likeliest(names: dict[str, Any]) -> str:
    """Return the name that most likely means the agent with the others as its parts.

    It is a usual name or else the last, because a module defines the parts first.
    """
    return next((name for name in USUAL_NAMES if name in names), next(reversed(names)))


USUAL_NAMES = ("app", "graph", "root_agent", "agent", "executor", "supervisor", "workflow")
"""Names of the whole agent in a module with several agents, in order of precedence."""


def _without_parts(agents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agents by name. Omit an agent that is part of another agent, and further names of the same agent.

    A server is the same agent as its executor. Servers come first, because they have the executor's card.
    """
    seen = {id(part) for agent in agents.values() for part in _parts(agent)}
    once: dict[str, Any] = {}
    for name, agent in sorted(agents.items(), key=lambda entry: not is_server(entry[1])):
        inside = executor_in(agent) if is_server(agent) else None
        own = id(inside[0] if inside is not None else agent)
        if own not in seen:
            seen.add(own)
            once[name] = agent
    return once


def _parts(agent: Any) -> Iterator[Any]:
    """Yield the agents contained in an agent: builder and subgraphs of a graph, root agent, sub-agents, agents of tools."""
    yield getattr(agent, "builder", None)
    yield from _subgraphs(agent)
    # Skip the `root_agent` of a sub-agent, because it is the sub-agent's top ancestor. The `root_agent` of an App is a
    # part of the App.
    root = getattr(agent, "root_agent", None) if not hasattr(agent, "sub_agents") else None
    nodes = getattr(getattr(agent, "graph", None), "nodes", ())
    tools = [getattr(tool, "agent", None) for tool in getattr(agent, "tools", None) or ()]
    inner = [each for each in (root, *getattr(agent, "sub_agents", ()), *nodes, *tools) if framework_of(each)]
    for each in inner:
        yield each
        yield from _parts(each)


def _subgraphs(graph: Any) -> Iterator[Any]:
    """Yield the graphs in a compiled graph's nodes, and those that the nodes' functions refer to."""
    if not callable(getattr(graph, "get_subgraphs", None)):
        return
    for _, nested in graph.get_subgraphs():
        yield nested
        yield getattr(nested, "builder", None)
        yield from _subgraphs(nested)


def _imported_names(module: ModuleType) -> set[str]:
    """Return the names that the module's import statements bind; none if its source is not available."""
    statements = imports_in(parsed(Path(getattr(module, "__file__", None) or "")))
    return {alias.asname or alias.name for statement in statements for alias in statement.names}
