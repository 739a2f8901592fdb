"""Discovery: the agents of a folder or a file that has no aion.yaml, and the aion.yaml that says the same."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from aion_core.agents.agent_code import AgentFile, adk_root, agent_files_below, is_adk_folder
from aion_core.agents.config import AgentConfig, read_declared
from aion_core.agents.langgraph_json import NAME, read_langgraph_json
from aion_core.errors import ConfigurationError
from aion_core.ports import Limits

AION_YAML = "aion.yaml"
_LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class Discovered:
    """Agents that discovery found, and all that serving them needs."""

    agents: Mapping[str, AgentConfig]
    """By ids that may stand in a URL."""
    folder: Path
    """The folder that the agents' paths are relative to."""
    found: str
    """A sentence of what was found, and of what in it has no effect."""
    roots: tuple[Path, ...] = ()
    """Folders that imports start from, beside the folder and its `src`."""
    env_files: tuple[Path, ...] = ()
    """The `.env` files that exist; a variable of an earlier one goes first."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that the project's own file holds."""
    requirements: tuple[str, ...] = ()
    """Pip requirements that langgraph.json names under `dependencies`."""
    limits: Limits | None = None
    config: Path | None = None
    """The aion.yaml, None where there is none."""


def discover(path: Path) -> Discovered:
    """Return what the folder or the file holds; `file.py:name` and `package.module:name` name one agent.

    A folder is searched for an aion.yaml, a langgraph.json, an ADK agent or several, and the one Python file that
    defines an agent, in this order. No code is imported. Raises ConfigurationError that says what was looked for, lists
    the candidates where there are several, and says how to choose.
    """
    place, colon, name = str(path.expanduser()).partition(":")
    target = Path(place)
    if target.is_dir() and not colon:
        return _of_folder(target.resolve())
    if target.is_dir() or target.suffix == ".py":
        return _of_file(target, name)
    if target.is_file() and target.suffix == ".json":
        return _of_langgraph_json(target.resolve())
    if target.suffix in (".yaml", ".yml") and not colon:
        return _of_aion_yaml(target)
    if re.fullmatch(r"\w+(\.\w+)*", place) and (colon or "." in place) and not target.exists():
        said = f"{place}{colon}{name}"
        return _one(said, _telling(name, *reversed(place.split("."))), Path.cwd(), said)
    raise ConfigurationError(
        f"{path} is neither a folder nor a file. Name a folder, file.py:name, package.module:name, an {AION_YAML} or a {NAME}."
    )


def project_above(folder: Path) -> Path | None:
    """Return the nearest folder above that has an aion.yaml, None if this one is a project itself, or has none above.

    The search ends at the top of the git repository.
    """
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / AION_YAML).is_file():
            return place if place != folder else None
        if any((place / name).exists() for name in (NAME, "pyproject.toml", "template.yaml", ".git")):
            return None
    return None


def as_yaml(discovered: Discovered) -> str:
    """Return the text of the aion.yaml that declares the same agents, as a file of the discovered folder.

    It holds neither limits nor what an aion.yaml says of security: a project that has one keeps it.
    """
    aion: dict[str, Any] = {}
    if discovered.roots:
        aion["python_path"] = [os.path.relpath(root, discovered.folder) for root in discovered.roots]
    if discovered.env:
        aion["environment"] = dict(discovered.env)
    aion["agents"] = {
        agent_id: agent.model_dump(mode="json", exclude_defaults=True) for agent_id, agent in discovered.agents.items()
    }
    return yaml.safe_dump({"aion": aion}, sort_keys=False, allow_unicode=True)


def _of_folder(folder: Path) -> Discovered:
    if (folder / AION_YAML).is_file():
        return _of_aion_yaml(folder / AION_YAML)
    if (folder / NAME).is_file():
        return _of_langgraph_json(folder / NAME)
    if is_adk_folder(folder):
        return _of_adk_folder(folder)
    inner = [path for path in sorted(folder.iterdir()) if _may_be_an_agent(path) and is_adk_folder(path)]
    if inner:
        return _of_adk_folders(folder, inner)
    return _of_python_files(folder, agent_files_below(folder))


def _of_aion_yaml(file: Path) -> Discovered:
    declared = read_declared(file)
    return Discovered(
        declared.agents,
        declared.folder,
        f"{file.name}: agent{_s(declared.agents)} {', '.join(declared.agents)}.",
        roots=tuple(declared.roots),
        env_files=_env_files(declared.folder),
        limits=declared.limits,
        config=file.resolve(),
    )


def _of_langgraph_json(file: Path) -> Discovered:
    content, folder = read_langgraph_json(file), file.parent
    ids = _ids(content.graphs)
    agents = {
        agent_id: AgentConfig(path=entry.path, description=entry.description)
        for agent_id, entry in zip(ids, content.graphs.values(), strict=True)
    }
    found = [f"{file.name}: graph{_s(agents)} {', '.join(agents)}."]
    if content.unused:
        found.append(f"Not used: {', '.join(content.unused)}.")
    if content.env_file is not None and not content.env_file.is_file():
        found.append(f"{content.env_file.name}, which `env` names, is not there.")
    env_files = [content.env_file] if content.env_file is not None else [] if content.env else [folder / ".env"]
    own_roots = {folder, folder / "src"}
    return Discovered(
        agents,
        folder,
        " ".join(found),
        roots=tuple(root for root in content.roots if root not in own_roots),
        env_files=tuple(env_file for env_file in env_files if env_file.is_file()),
        env=content.env,
        requirements=content.requirements,
    )


def _of_adk_folder(folder: Path) -> Discovered:
    """Return the agent that the folder is.

    A package is imported by its name, as `adk web` does: paths are relative to the folder that it lies in.
    """
    if (folder / "__init__.py").is_file() or not (folder / "agent.py").is_file():
        # ADK takes the `.env` of the agent, else the one of the folder above.
        env_files = (_env_files(folder) or _env_files(folder.parent))[:1]
        return _one(folder.name, folder.name, folder.parent, f"ADK agent folder {folder.name}", env_files)
    return _one(f"agent.py:{adk_root(folder / 'agent.py')}", folder.name, folder, f"ADK agent folder {folder.name}")


def _of_adk_folders(folder: Path, inner: Sequence[Path]) -> Discovered:
    agents = {
        agent_id: AgentConfig(path=place.name)
        for agent_id, place in zip(_ids([place.name for place in inner]), inner, strict=True)
    }
    return Discovered(
        agents,
        folder,
        f"ADK agent folder{_s(agents)}: {', '.join(agents)}.",
        env_files=_env_files(folder, *inner),
    )


def _of_python_files(folder: Path, files: Sequence[AgentFile]) -> Discovered:
    if len(files) == 1:
        [only] = files
        path = str(only.file.relative_to(folder))
        return _one(path, _id_of(only.file), folder, f"{path}: {', '.join(only.names)}")
    if files:
        candidates = [f"{each.file.relative_to(folder)}:{name}" for each in files for name in each.names]
        raise ConfigurationError(
            f"{folder} has several agents: {', '.join(candidates)}. "
            f"Choose one, as in `aion dev {candidates[0]}`, or list them in an {AION_YAML}."
        )
    if (above := project_above(folder)) is not None:
        raise ConfigurationError(
            f"{folder} has no agent. {AION_YAML} is in {above}: run it there, or `aion dev {os.path.relpath(above)}`."
        )
    raise ConfigurationError(
        f"{folder} has no agent. Looked for: {AION_YAML}, {NAME}, an ADK agent folder (root_agent in agent.py or "
        "__init__.py, root_agent.yaml), and a Python file that defines a graph, an agent or an executor. "
        "Name a file, as in `aion dev agent.py:graph`, or begin with `aion new my-agent`."
    )


def _of_file(target: Path, name: str) -> Discovered:
    """Return the agent of a Python file, or of an ADK folder in which it is named."""
    if not target.exists():
        raise ConfigurationError(f"{target} does not exist. Name a Python file, a folder, or package.module:name.")
    file, here = target.resolve(), Path.cwd()
    folder = here if file.is_relative_to(here) else file.parent
    path = f"{file.relative_to(folder)}:{name}" if name else str(file.relative_to(folder))
    return _one(path, _id_of(file, name), folder, path, _env_files(file if file.is_dir() else file.parent, folder))


def _one(path: str, name: str, folder: Path, found: str, env_files: tuple[Path, ...] | None = None) -> Discovered:
    [agent_id] = _ids([name])
    files = _env_files(folder) if env_files is None else env_files
    return Discovered({agent_id: AgentConfig(path=path)}, folder, f"{found}.", env_files=files)


def _id_of(file: Path, name: str = "") -> str:
    """Return the id of a file's agent: its name where that tells agents apart, else the file's, else the folder's."""
    return _telling(name, file.stem, file.parent.name)


def _telling(*names: str) -> str:
    """Return the first of the names that tells agents apart, else the last that there is."""
    usual = ("", "graph", "agent", "root_agent", "app", "main", "__init__", "src")
    return next((name for name in names if name not in usual), next(name for name in reversed(names) if name))


def _env_files(*folders: Path) -> tuple[Path, ...]:
    """Return the `.env` files of these folders that exist."""
    files = dict.fromkeys(folder / ".env" for folder in folders)
    return tuple(file for file in files if file.is_file())


def _may_be_an_agent(path: Path) -> bool:
    return path.is_dir() and path.name.isidentifier() and not path.name.startswith(("_", "."))


def _ids(names: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Return an id for each name that may stand in a URL, each once."""
    ids: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:_LONGEST_ID] or "agent"
        free = (each for each in _numbered(plain) if each not in ids)
        ids.append(next(free))
    return ids


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        end = f"-{number}"
        yield f"{name[: _LONGEST_ID - len(end)]}{end}"
        number += 1


def _s(several: Mapping[str, object]) -> str:
    return "s" if len(several) > 1 else ""
