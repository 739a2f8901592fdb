"""Which frameworks a deployment's agents are written with, told by what their code imports; none of it is run."""

from collections.abc import Sequence
from pathlib import Path

from aion_core.agents.importing import YAML_AGENT
from aion_core.packaging.imports import imports

_BY_IMPORT = {
    "google.adk": "adk",
    "aion.adk": "adk",
    "langgraph": "langgraph",
    "langchain": "langgraph",
    "langchain_core": "langgraph",
    "aion.langgraph": "langgraph",
    # An AgentExecutor of the SDK's needs what its own code imports, and no more.
    "a2a.server": "",
}
"""The framework that an import tells of; the names below it tell of it, too."""
FRAMEWORKS = frozenset(filter(None, _BY_IMPORT.values()))


def frameworks_of(file: Path, roots: Sequence[Path]) -> set[str]:
    """Return the frameworks that the agent's file imports, by itself or by a file in these folders that it imports.

    Where no import tells of one the agent comes from somebody else's package: it may be of any.
    """
    if file.name == YAML_AGENT:
        return {"adk"}
    names = {each.name for each in imports(file, [*roots, file.parent])}
    told = {
        framework for name in names for start, framework in _BY_IMPORT.items() if f"{name}.".startswith(f"{start}.")
    }
    return {framework for framework in told if framework} if told else set(FRAMEWORKS)
