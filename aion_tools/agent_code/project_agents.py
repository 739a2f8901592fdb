"""Agents of a project, and the files and folders that they need in a package."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from aion_core.errors import ConfigurationError
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.discovery.discover import discover
from aion_core.loading.importing.places import agent_files, import_roots
from aion_tools.agent_code.aion_yaml import as_yaml
from aion_tools.programs import BuildError, interpreter


@dataclass(frozen=True)
class PackagedAgent:
    """An agent contained in a Lambda package."""

    id: str
    path: str
    """Path of the agent as written in aion.yaml."""
    file: Path


@dataclass(frozen=True)
class ProjectAgents:
    """Agents of a project, with their module folders, configuration files and requirements."""

    agents: tuple[PackagedAgent, ...]
    roots: tuple[Path, ...]
    """Folders with the agents' modules. The server uses the same folders."""
    configs: tuple[Path, ...] = ()
    """Paths of the project's own configuration files."""
    generated: str = ""
    """Text of an aion.yaml, for a project without one."""
    requirements: tuple[str, ...] = ()
    """Requirements listed in langgraph.json."""
    exclude: tuple[str, ...] = ()
    """Patterns of the dependencies' files that packages leave out, `exclude` in aion.yaml."""


def agents_of(folder: Path, configs: Sequence[Path]) -> ProjectAgents:
    """Return the agents declared in the config files or, if the only config file is missing, found in the folder.

    Raises BuildError.
    """
    try:
        if len(configs) == 1 and not configs[0].is_file():
            return _discovered(folder, configs[0])
        agents: list[PackagedAgent] = []
        roots: list[Path] = []
        exclude: list[str] = []
        for config in configs:
            _check_config_is_built(config)
            declared = read_deployment_config(config)
            paths = {name: agent.path for name, agent in declared.agents.items()}
            found, starts = _located(folder, paths, import_roots(declared.folder, declared.roots))
            agents += found
            roots += starts
            exclude += declared.exclude
        return ProjectAgents(tuple(agents), tuple(dict.fromkeys(roots)), tuple(configs), exclude=tuple(exclude))
    except ConfigurationError as error:
        raise BuildError(str(error)) from error


def _discovered(folder: Path, config: Path) -> ProjectAgents:
    found = discover(folder)
    if found.folder != folder:
        raise BuildError(f"{folder.name} is a Python package: build in its parent folder, {found.folder}")
    paths = {name: agent.path for name, agent in found.agents.items()}
    agents, roots = _located(folder, paths, import_roots(found.folder, found.roots))
    return ProjectAgents(tuple(agents), tuple(roots), (), as_yaml(found), tuple(found.requirements))


def _located(folder: Path, paths: Mapping[str, str], roots: Sequence[Path]) -> tuple[list[PackagedAgent], list[Path]]:
    """Find the file of each agent (given as a path by agent id), and the folders with the agents' modules.

    Raises BuildError for an agent with an absolute path, or without a file in the project's folder.
    """
    agents = []
    for agent_id, path in paths.items():
        if Path(path).is_absolute():
            raise BuildError(f"the path {path!r} of an agent is absolute; write it relative to aion.yaml's folder")
        files = [file for file in agent_files(path.partition(":")[0], roots) if file.is_file()]
        if not files or folder not in files[0].parents:
            reason = "is outside of the project's folder" if files else "does not exist in the project's folder"
            raise BuildError(
                f"the agent {path!r} {reason}, {folder}: correct its path in aion.yaml or langgraph.json, or move its "
                "file there"
            )
        agents.append(PackagedAgent(agent_id, path, files[0]))
    starts = [root.resolve() for root in roots]
    if outside := [root for root in starts if root != folder and folder not in root.parents]:
        raise BuildError(f"aion.python_path has {outside[0]}, outside of the project's folder, {folder}")
    for agent in agents:
        starts.append(agent.file.parent)
        packages = list(takewhile(lambda parent: (parent / "__init__.py").is_file(), agent.file.parents))
        if packages and folder in packages[-1].parents:
            starts.append(packages[-1].parent)
    return agents, list(dict.fromkeys(starts))


def check_syntax(loaded: Iterable[Path], folder: Path, python: str) -> None:
    """Raise BuildError for a syntax error in the code of the agents, by Lambda's Python version if this machine has it."""
    files = sorted(map(str, loaded))
    program = interpreter(python)
    ran = subprocess.run([program or sys.executable, "-I", "-c", _COMPILER, *files], capture_output=True, text=True)  # noqa: S603 - fixed code
    if ran.returncode:
        file, _, text = ran.stderr.partition("\n")
        version = python if program else f"{sys.version_info[0]}.{sys.version_info[1]}"
        remedy = "" if program else f" (for newer syntax, run `uv python install {python}`)"
        raise BuildError(f"{os.path.relpath(file, folder)} is not valid Python {version}{remedy}:\n{text.rstrip()}")


_COMPILER = """import sys, traceback, warnings
warnings.simplefilter("ignore")
for name in sys.argv[1:]:
    try:
        compile(open(name, "rb").read(), name, "exec")
    except (SyntaxError, ValueError) as error:
        sys.exit(f"{name}\\n{''.join(traceback.format_exception_only(error))}")
"""
"""Program that compiles files. For the first invalid file it prints the name, the line and the error, and exits."""


def _check_config_is_built(config: Path) -> None:
    """Raise BuildError if AION_CONFIG names another config, because the developer has probably tested that config."""
    given = os.environ.get("AION_CONFIG")
    if given and Path(given).expanduser().resolve() != config.resolve():
        raise BuildError(
            f"AION_CONFIG is {given}, but this build uses {config}: build in the folder of AION_CONFIG, or unset it"
        )
