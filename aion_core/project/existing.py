"""Agents of a folder that becomes a project: found without running them, with the frameworks that they are written with."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aion_core.agents.discovery import AION_YAML, NAME, Discovered, as_yaml, discover
from aion_core.agents.frameworks import extras
from aion_core.agents.importing import YAML_AGENT, agent_files, import_roots
from aion_core.packaging.frameworks import frameworks_of
from aion_core.project.errors import ProjectError

_HEAD = (
    "# The agents that this project serves and deploys, as `aion init` found them. Paths are relative to this file.\n"
)


@dataclass(frozen=True, slots=True)
class Existing:
    """Agents of an existing folder."""

    frameworks: tuple[str, ...]
    """The frameworks that the agents' code imports; none for executors only."""
    found: str = ""
    """A sentence of what was found; empty where an aion.yaml says it."""
    yaml: str = ""
    """The aion.yaml that declares the agents; empty where there is one."""
    notes: tuple[str, ...] = ()
    """Keys of another tool's file that have no effect once there is an aion.yaml."""


def agents_in(folder: Path) -> Existing | None:
    """Return the folder's agents; None where nothing in it may be one: it is to get an example.

    Raises ConfigurationError where the agents are not clear (`discover` says how to choose), and ProjectError where the
    aion.yaml would belong into another folder.
    """
    if (folder / AION_YAML).is_file():
        return Existing(_frameworks(discover(folder)))
    if not any(_code(folder)):
        return None
    found = discover(folder)
    if found.folder != folder.resolve():
        raise ProjectError(
            f"{folder.name} is a Python package, so that its project is the folder above: cd .. && aion init"
        )
    return Existing(_frameworks(found), found.found, _HEAD + as_yaml(found), tuple(_notes(found)))


def _code(folder: Path) -> Iterable[Path]:
    """Yield the Python files, and the files of other tools that name agents; not those of environments and tests."""
    for pattern in ("langgraph.json", YAML_AGENT, f"*/{YAML_AGENT}"):
        yield from folder.glob(pattern)
    for file in folder.rglob("*.py"):
        inside = file.relative_to(folder).parts
        if not any(part.startswith(".") or part in ("tests", "node_modules", "venv", "env") for part in inside):
            yield file


def _frameworks(found: Discovered) -> tuple[str, ...]:
    """Return the frameworks of all agents; every one for an agent whose code does not tell."""
    roots = import_roots(found.folder, found.roots)
    frameworks: set[str] = set()
    for agent in found.agents.values():
        files = [file for file in agent_files(agent.path.partition(":")[0], roots) if file.is_file()]
        # An agent's folder has several; one that imports no framework tells of none.
        of_files = [frameworks_of(file, roots) for file in files]
        frameworks |= min(of_files, key=len, default=set(extras()))
    return tuple(sorted(frameworks))


def _notes(found: Discovered) -> Iterable[str]:
    """Yield what aion.yaml does not take over from langgraph.json."""
    if (found.folder / NAME).is_file():
        yield f"{NAME} is no longer read: aion.yaml takes its place."
    if found.requirements:
        packages = " ".join(found.requirements)
        yield f"langgraph.json installs {packages}: make them dependencies of the project (aion add {packages})"
    if found.env:
        yield f"langgraph.json sets {', '.join(found.env)}: put them into .env, which is read beside aion.yaml"
    for file in found.env_files:
        if file.resolve() != (found.folder / ".env").resolve():
            name, own = os.path.relpath(file, found.folder), found.folder / ".env"
            several = own.is_file() or len(found.env_files) > 1
            doing = f"Append {name} to .env" if several else f"Move {name} to .env"
            yield f"{doing}: beside an aion.yaml only that one is read."
