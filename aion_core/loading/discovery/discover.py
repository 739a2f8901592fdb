"""Discovery of agents in a folder, a Python file, an aion.yaml or a langgraph.json."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.reading import AION_YAML, read_config_file
from aion_core.loading.discovery.adk_folders import discover_adk_folder, discover_adk_folders, is_adk_folder
from aion_core.loading.discovery.agent_ids import agent_ids, distinctive, id_of_file
from aion_core.loading.discovery.discovered import Discovered, env_files_in, plural_s, single_agent
from aion_core.loading.discovery.langgraph_json import read_langgraph_json
from aion_core.loading.discovery.python_files import AgentFile, agent_files_below
from aion_core.loading.importing.places import LANGGRAPH_JSON


def discover(path: Path) -> Discovered:
    """Return the agents of a folder or a file; `file.py:name` and `package.module:name` name one agent.

    In a folder, use the first that exists: an aion.yaml, a langgraph.json, one or several ADK agents, the only Python
    file with an agent. No code is imported. Raises ConfigurationError if there is no agent, or if there are several
    candidates; the error lists the searched files or the candidates.
    """
    place, colon, name = str(path.expanduser()).partition(":")
    target = Path(place)
    if target.is_dir() and not colon:
        return _discover_folder(target.resolve())
    if target.is_dir() or target.suffix == ".py":
        return _discover_file(target, name)
    if target.is_file() and target.suffix == ".json":
        return _discover_langgraph_json(target.resolve())
    if target.suffix in (".yaml", ".yml") and not colon:
        return _discover_aion_yaml(target)
    if re.fullmatch(r"\w+(\.\w+)*", place) and (colon or "." in place) and not target.exists():
        dotted = f"{place}{colon}{name}"
        return single_agent(dotted, distinctive(name, *reversed(place.split("."))), Path.cwd(), dotted)
    raise ConfigurationError(
        f"{path} is neither a folder nor a file. Name a folder, file.py:name, package.module:name, an {AION_YAML} or a {LANGGRAPH_JSON}."
    )


def project_above(folder: Path) -> Path | None:
    """Return the nearest parent folder with an aion.yaml; None if the folder itself contains a project.

    The search stops at a folder with a langgraph.json, pyproject.toml, template.yaml or .git.
    """
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / AION_YAML).is_file():
            return place if place != folder else None
        if any((place / name).exists() for name in (LANGGRAPH_JSON, "pyproject.toml", "template.yaml", ".git")):
            return None
    return None


def _discover_folder(folder: Path) -> Discovered:
    if (folder / AION_YAML).is_file():
        return _discover_aion_yaml(folder / AION_YAML)
    if (folder / LANGGRAPH_JSON).is_file():
        return _discover_langgraph_json(folder / LANGGRAPH_JSON)
    if is_adk_folder(folder):
        return discover_adk_folder(folder)
    inner = [path for path in sorted(folder.iterdir()) if _may_be_agent_folder(path) and is_adk_folder(path)]
    if packages := [path for path in inner if path.name.isidentifier()]:
        return discover_adk_folders(folder, packages, [path for path in inner if path not in packages])
    return _discover_python_files(folder, agent_files_below(folder))


def _discover_aion_yaml(file: Path) -> Discovered:
    declared = read_config_file(file)
    return Discovered(
        declared.agents,
        declared.folder,
        f"{file.name}: agent{plural_s(declared.agents)} {', '.join(declared.agents)}.",
        roots=tuple(declared.roots),
        env_files=env_files_in(declared.folder),
        limits=declared.limits,
        config=file.resolve(),
    )


def _discover_langgraph_json(file: Path) -> Discovered:
    content, folder = read_langgraph_json(file), file.parent
    ids = agent_ids(content.graphs)
    agents = {
        agent_id: AgentConfig(path=entry.path, description=entry.description)
        for agent_id, entry in zip(ids, content.graphs.values(), strict=True)
    }
    found = [f"{file.name}: graph{plural_s(agents)} {', '.join(agents)}."]
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
        notices=content.notices,
        roots=tuple(root for root in content.roots if root not in own_roots),
        env_files=tuple(env_file for env_file in env_files if env_file.is_file()),
        env=content.env,
        requirements=content.requirements,
    )


def _discover_python_files(folder: Path, files: Sequence[AgentFile]) -> Discovered:
    if len(files) == 1 and len(files[0].functions) <= 1:
        [only] = files
        file = str(only.file.relative_to(folder))
        # `path` must name a function, because a file without a name stands for its only object or class.
        path = f"{file}:{only.functions[0]}" if only.functions else file
        return single_agent(path, id_of_file(only.file), folder, f"{file}: {', '.join(only.names)}")
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
        f"{folder} has no agent. Looked for: {AION_YAML}, {LANGGRAPH_JSON}, an ADK agent folder (root_agent in agent.py or "
        "__init__.py, root_agent.yaml), and a Python file that defines a graph, an agent or an executor. "
        "Name a file, as in `aion dev agent.py:graph`, or begin with `aion new my-agent`."
    )


def _discover_file(target: Path, name: str) -> Discovered:
    """Return the agent of a Python file, or the agent called `name` in an ADK folder."""
    if not target.exists():
        raise ConfigurationError(f"{target} does not exist. Name a Python file, a folder, or package.module:name.")
    file, here = target.resolve(), Path.cwd()
    folder = here if file.is_relative_to(here) else file.parent
    path = f"{file.relative_to(folder)}:{name}" if name else str(file.relative_to(folder))
    return single_agent(
        path, id_of_file(file, name), folder, path, env_files_in(file if file.is_dir() else file.parent, folder)
    )


def _may_be_agent_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(("_", "."))
