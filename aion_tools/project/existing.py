"""Search for the agents of an existing folder and their frameworks, without running the agents' code."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from aion_core.engine.agent_options import AnswerAs
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.reading import AION_YAML
from aion_core.loading.answer_form import answer_form
from aion_core.loading.discovery.discover import discover
from aion_core.loading.discovery.discovered import Discovered
from aion_core.loading.frameworks import extras
from aion_core.loading.importing.places import LANGGRAPH_JSON, YAML_AGENT, agent_files, import_roots
from aion_tools.agent_code.aion_yaml import as_yaml
from aion_tools.agent_code.card_keys import with_card_keys
from aion_tools.agent_code.imports import frameworks_of
from aion_tools.project import ProjectError
from aion_tools.project.files import SCHEMA

_HEAD = (
    f"# yaml-language-server: $schema={SCHEMA}\n"
    "# The agents of this project, as found by `aion init`. Paths are relative to this file.\n"
)


@dataclass(frozen=True, slots=True)
class ExistingAgents:
    """Agents found in an existing folder."""

    frameworks: tuple[str, ...]
    """Names of the frameworks imported by the agents' code. Empty if all agents are executors."""
    found: str = ""
    """Sentence that names the found agents. Empty for a folder with an aion.yaml."""
    yaml: str = ""
    """Text of a new aion.yaml for the agents. Empty for a folder with an aion.yaml."""
    notes: tuple[str, ...] = ()
    """Sentences about settings in langgraph.json that have no effect once the folder has an aion.yaml."""


def agents_in(folder: Path) -> ExistingAgents | None:
    """Return the agents found in the folder, or None for a folder without agent code.

    Raises ConfigurationError for ambiguous agents (with the choices), and ProjectError if the aion.yaml belongs into another
    folder.
    """
    if (folder / AION_YAML).is_file():
        return ExistingAgents(_frameworks(discover(folder)))
    if not any(_code(folder)):
        return None
    found = discover(folder)
    if found.folder != folder.resolve():
        raise ProjectError(
            f"{folder.name} is a Python package, so its project is the parent folder: cd .. && aion init"
        )
    agents = {agent_id: _with_answer(agent, found) for agent_id, agent in with_card_keys(found).items()}
    described = replace(found, agents=agents)
    return ExistingAgents(_frameworks(found), found.found, _HEAD + as_yaml(described), tuple(_notes(found)))


def _with_answer(agent: AgentConfig, found: Discovered) -> AgentConfig:
    """Return the agent with the form of its answer, unless it is a message, as without a file of another server."""
    form = answer_form(agent, found.folder, found.roots)
    return agent if form is AnswerAs.MESSAGE else agent.model_copy(update={"answer": form})


def _code(folder: Path) -> Iterable[Path]:
    """Yield the folder's Python files and other tools' agent files, without virtual environments and tests."""
    for pattern in ("langgraph.json", YAML_AGENT, f"*/{YAML_AGENT}"):
        yield from folder.glob(pattern)
    for file in folder.rglob("*.py"):
        inside = file.relative_to(folder).parts
        if not any(part.startswith(".") or part in ("tests", "node_modules", "venv", "env") for part in inside):
            yield file


def _frameworks(found: Discovered) -> tuple[str, ...]:
    """Return the names of the agents' frameworks. Return all frameworks if an agent imports none that is known."""
    roots = import_roots(found.folder, found.roots)
    frameworks: set[str] = set()
    for agent in found.agents.values():
        files = [file for file in agent_files(agent.path.partition(":")[0], roots) if file.is_file()]
        # An agent path may match several files. The file that imports the fewest frameworks shows the agent's own.
        of_files = [frameworks_of(file, roots) for file in files]
        frameworks |= min(of_files, key=len, default=set(extras()))
    return tuple(sorted(frameworks))


def _notes(found: Discovered) -> Iterable[str]:
    """Yield a sentence for the author about each setting of langgraph.json without a counterpart in aion.yaml."""
    if (found.folder / LANGGRAPH_JSON).is_file():
        yield f"{LANGGRAPH_JSON} is no longer read: aion.yaml replaces it."
    yield from found.notices
    if found.requirements:
        packages = " ".join(found.requirements)
        yield f"langgraph.json installs {packages}: add them to the project's dependencies (uv add {packages})"
    if found.env:
        yield (
            f"langgraph.json sets {', '.join(found.env)}: aion.yaml sets them under `environment`. If one is secret, "
            "move its value to .env, and its name to `secrets`."
        )
    for file in found.env_files:
        if file.resolve() != (found.folder / ".env").resolve():
            name, own = os.path.relpath(file, found.folder), found.folder / ".env"
            several = own.is_file() or len(found.env_files) > 1
            action = f"Append {name} to .env" if several else f"Move {name} to .env"
            yield f"{action}: beside an aion.yaml, aion reads only .env."
