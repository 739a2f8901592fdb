"""A loaded agent object: its module, its name and its framework."""

from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from aion_core.loading.frameworks import framework_of, framework_of_factories, framework_of_file
from aion_core.loading.load_errors.source_lines import assignment_line, source_location
from aion_core.loading.objects.per_turn import PerTurnFactory
from aion_core.protocol.types import AgentCard


class LoadedObject(Struct, frozen=True):
    """Agent object, with its module and its name in that module."""

    agent: Any
    module: ModuleType | None
    """Module with the agent; None for an agent in a root_agent.yaml file of ADK."""
    name: str = ""
    """Name of the agent object in its module, or "" if it has no name there."""
    card: AgentCard | None = None
    """Card of the request handler or app in which the agent was found."""
    docstring: str = ""
    """Docstring of the author's function that has made the agent."""


def framework_of_loaded(agent: object) -> str | None:
    """Return the framework name of a loaded agent object; None if the object is not supported."""
    if isinstance(agent, PerTurnFactory):
        return framework_of_factories()
    return framework_of_file(agent.name) if isinstance(agent, Path) else framework_of(agent)


def object_location(found: LoadedObject, folder: Path) -> dict[str, str]:
    """Return the arguments `where` and `source` of an AgentLoadError about a loaded object."""
    if found.module is None:
        return source_location(found.agent, [], folder) if isinstance(found.agent, Path) else {}
    return source_location(found.module.__file__, [assignment_line(found.module, found.name)], folder)
