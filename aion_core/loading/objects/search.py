"""Search for the only agent of a module."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from aion_core.errors import AgentLoadError
from aion_core.loading.frameworks import framework_of
from aion_core.loading.load_errors.source_lines import assignment_line, source_location


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
    classes = {name: value for name, value in agents.items() if getattr(value, "__module__", "") == module.__name__}
    own = {name: value for name, value in instances.items() if name not in imported}
    concrete = {name: value for name, value in classes.items() if not inspect.isabstract(value)}
    found = next(filter(None, map(_without_parts, (own, instances, concrete, classes))), {})
    if len(found) > 1:
        raise AgentLoadError(
            f"{path} holds several agents: {', '.join(found)}",
            do=f"Name one, as in {path}:{next(iter(found))}.",
            **source_location(module.__file__, [assignment_line(module, name) for name in found], folder),
        )
    return next(iter(found.values()), None)


def _without_parts(agents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agents by name. Omit an agent that is part of another agent, and further names of the same agent."""
    seen = {id(part) for agent in agents.values() for part in _parts(agent)}
    once: dict[str, Any] = {}
    for name, agent in agents.items():
        if id(agent) not in seen:
            seen.add(id(agent))
            once[name] = agent
    return once


def _parts(agent: Any) -> Iterator[Any]:
    """Yield the agents contained in an agent: a graph's builder, an App's root agent, sub-agents, agents of tools."""
    yield getattr(agent, "builder", None)
    # Skip the `root_agent` of a sub-agent, because it is the sub-agent's top ancestor. The `root_agent` of an App is a
    # part of the App.
    root = getattr(agent, "root_agent", None) if not hasattr(agent, "sub_agents") else None
    nodes = getattr(getattr(agent, "graph", None), "nodes", ())
    tools = [getattr(tool, "agent", None) for tool in getattr(agent, "tools", None) or ()]
    inner = [each for each in (root, *getattr(agent, "sub_agents", ()), *nodes, *tools) if framework_of(each)]
    for each in inner:
        yield each
        yield from _parts(each)


def _imported_names(module: ModuleType) -> set[str]:
    """Return the names that the module's import statements bind."""
    try:
        source = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        # Return no names, because the module's source is not available.
        return set()
    statements = (node for node in ast.walk(source) if isinstance(node, ast.Import | ast.ImportFrom))
    return {alias.asname or alias.name for statement in statements for alias in statement.names}
