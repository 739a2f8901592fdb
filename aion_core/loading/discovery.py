"""Discovery of agents in a folder, a Python file, an aion.yaml or a langgraph.json."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from aion_core.engine.limits.limits import Limits
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.reading import read_config_file
from aion_core.loading.source_scan import AgentFile, adk_root, agent_files_below, is_adk_folder

AION_YAML = "aion.yaml"
_LONGEST_ID = 64


class Discovered(Struct, frozen=True):
    """Agents discovered in a folder or a file, with the settings needed to serve them."""

    agents: Mapping[str, AgentConfig]
    """Agents' configurations by agent id. The ids are valid in a URL."""
    folder: Path
    """Base folder of the agents' paths."""
    found: str
    """Message for the user: the discovered agents, and the settings that have no effect."""
    roots: tuple[Path, ...] = ()
    """Further folders for imports, beside the folder and its `src`."""
    env_files: tuple[Path, ...] = ()
    """Existing `.env` files, in order of precedence."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables declared in langgraph.json itself."""
    requirements: tuple[str, ...] = ()
    """Pip requirements under `dependencies` in langgraph.json."""
    limits: Limits | None = None
    config: Path | None = None
    """Path of the project's aion.yaml; None without such a file."""


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
        return _single_agent(dotted, _distinctive(name, *reversed(place.split("."))), Path.cwd(), dotted)
    raise ConfigurationError(
        f"{path} is neither a folder nor a file. Name a folder, file.py:name, package.module:name, an {AION_YAML} or a {NAME}."
    )


def project_above(folder: Path) -> Path | None:
    """Return the nearest parent folder with an aion.yaml; None if the folder itself contains a project.

    The search stops at a folder with a langgraph.json, pyproject.toml, template.yaml or .git.
    """
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / AION_YAML).is_file():
            return place if place != folder else None
        if any((place / name).exists() for name in (NAME, "pyproject.toml", "template.yaml", ".git")):
            return None
    return None


def as_yaml(discovered: Discovered) -> str:
    """Return the text of an aion.yaml that declares the discovered agents.

    It has no limits and no auth policy: a project without an aion.yaml cannot have any.
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


def _discover_folder(folder: Path) -> Discovered:
    if (folder / AION_YAML).is_file():
        return _discover_aion_yaml(folder / AION_YAML)
    if (folder / NAME).is_file():
        return _discover_langgraph_json(folder / NAME)
    if is_adk_folder(folder):
        return _discover_adk_folder(folder)
    inner = [path for path in sorted(folder.iterdir()) if _may_be_agent_folder(path) and is_adk_folder(path)]
    if inner:
        return _discover_adk_folders(folder, inner)
    return _discover_python_files(folder, agent_files_below(folder))


def _discover_aion_yaml(file: Path) -> Discovered:
    declared = read_config_file(file)
    return Discovered(
        declared.agents,
        declared.folder,
        f"{file.name}: agent{_plural_s(declared.agents)} {', '.join(declared.agents)}.",
        roots=tuple(declared.roots),
        env_files=_env_files(declared.folder),
        limits=declared.limits,
        config=file.resolve(),
    )


def _discover_langgraph_json(file: Path) -> Discovered:
    content, folder = read_langgraph_json(file), file.parent
    ids = _ids(content.graphs)
    agents = {
        agent_id: AgentConfig(path=entry.path, description=entry.description)
        for agent_id, entry in zip(ids, content.graphs.values(), strict=True)
    }
    found = [f"{file.name}: graph{_plural_s(agents)} {', '.join(agents)}."]
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


def _discover_adk_folder(folder: Path) -> Discovered:
    """Return the agent of an ADK folder.

    The path of the agent is relative to the parent folder, because Python imports the folder as a package, as in `adk
    web`.
    """
    if (folder / "__init__.py").is_file() or not (folder / "agent.py").is_file():
        # Like ADK, read the `.env` in the agent's folder, or else the one in the parent folder.
        env_files = (_env_files(folder) or _env_files(folder.parent))[:1]
        return _single_agent(folder.name, folder.name, folder.parent, f"ADK agent folder {folder.name}", env_files)
    return _single_agent(
        f"agent.py:{adk_root(folder / 'agent.py')}", folder.name, folder, f"ADK agent folder {folder.name}"
    )


def _discover_adk_folders(folder: Path, inner: Sequence[Path]) -> Discovered:
    agents = {
        agent_id: AgentConfig(path=place.name)
        for agent_id, place in zip(_ids([place.name for place in inner]), inner, strict=True)
    }
    return Discovered(
        agents,
        folder,
        f"ADK agent folder{_plural_s(agents)}: {', '.join(agents)}.",
        env_files=_env_files(folder, *inner),
    )


def _discover_python_files(folder: Path, files: Sequence[AgentFile]) -> Discovered:
    if len(files) == 1:
        [only] = files
        path = str(only.file.relative_to(folder))
        return _single_agent(path, _id_of(only.file), folder, f"{path}: {', '.join(only.names)}")
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


def _discover_file(target: Path, name: str) -> Discovered:
    """Return the agent of a Python file, or the agent called `name` in an ADK folder."""
    if not target.exists():
        raise ConfigurationError(f"{target} does not exist. Name a Python file, a folder, or package.module:name.")
    file, here = target.resolve(), Path.cwd()
    folder = here if file.is_relative_to(here) else file.parent
    path = f"{file.relative_to(folder)}:{name}" if name else str(file.relative_to(folder))
    return _single_agent(
        path, _id_of(file, name), folder, path, _env_files(file if file.is_dir() else file.parent, folder)
    )


def _single_agent(
    path: str, name: str, folder: Path, found: str, env_files: tuple[Path, ...] | None = None
) -> Discovered:
    [agent_id] = _ids([name])
    files = _env_files(folder) if env_files is None else env_files
    return Discovered({agent_id: AgentConfig(path=path)}, folder, f"{found}.", env_files=files)


def _id_of(file: Path, name: str = "") -> str:
    """Return an id for a file's agent: the first distinctive one of the names of the agent, the file and the folder."""
    return _distinctive(name, file.stem, file.parent.name)


def _distinctive(*names: str) -> str:
    """Return the first name that is not generic, such as "agent" or "main"; if all are, the last non-empty name."""
    usual = ("", "graph", "agent", "root_agent", "app", "main", "__init__", "src")
    return next((name for name in names if name not in usual), next(name for name in reversed(names) if name))


def _env_files(*folders: Path) -> tuple[Path, ...]:
    """Return the paths of the `.env` files that exist in these folders."""
    files = dict.fromkeys(folder / ".env" for folder in folders)
    return tuple(file for file in files if file.is_file())


def _may_be_agent_folder(path: Path) -> bool:
    return path.is_dir() and path.name.isidentifier() and not path.name.startswith(("_", "."))


def _ids(names: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Return an agent id for each name. The ids are unique and valid in a URL."""
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


def _plural_s(several: Mapping[str, object]) -> str:
    return "s" if len(several) > 1 else ""


# ── langgraph.json ────────────────────────────────────────────────────────────────────────────────────────────────────

NAME = "langgraph.json"
_USED = ("graphs", "dependencies", "env", "$schema")
_JAVASCRIPT = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")


class GraphEntry(Struct, frozen=True):
    """Graph declared in langgraph.json."""

    path: str
    """`folder/file.py:name` or `package.module:name`, relative to the file's folder."""
    description: str = ""


class LangGraphJson(Struct, frozen=True):
    """Contents of a langgraph.json, only the parts that aion uses."""

    graphs: Mapping[str, GraphEntry]
    """Graphs by id; an id may contain any character."""
    roots: tuple[Path, ...]
    """Folders made importable by the local `dependencies`."""
    requirements: tuple[str, ...]
    """Packages among the `dependencies`, as pip requirements."""
    env_file: Path | None
    """Path of the file named by `env`, which may not exist; None if `env` is a mapping of variables."""
    env: Mapping[str, str]
    """Environment variables declared in `env`; empty if `env` names a file."""
    unused: tuple[str, ...]
    """Keys of the file that have no effect in aion."""


def read_langgraph_json(file: Path) -> LangGraphJson:
    """Read a langgraph.json. Raises ConfigurationError with the file, the invalid key and the remedy."""
    content = _read_json(file)
    folder = file.resolve().parent
    graphs = content.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise _error(file, "graphs", 'it has to name a graph or more, as in {"agent": "./src/agent/graph.py:graph"}')
    dependencies = content.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(entry, str) for entry in dependencies):
        raise _error(file, "dependencies", 'it has to be a list of texts, such as ["."]')
    local = [entry for entry in dependencies if entry.startswith((".", "/"))]
    env = content.get("env", {})
    if not isinstance(env, str | dict):
        raise _error(file, "env", 'it has to be the path of a file, such as ".env", or a mapping of variables')
    return LangGraphJson(
        graphs={str(name): _graph(file, folder, str(name), entry) for name, entry in graphs.items()},
        roots=tuple(dict.fromkeys(root for entry in local for root in _roots(file, folder, entry))),
        requirements=tuple(entry for entry in dependencies if entry not in local),
        env_file=(folder / env) if isinstance(env, str) and env else None,
        env={str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {},
        unused=tuple(key for key in content if key not in _USED),
    )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}. Fix the path.") from error
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{file} is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno}). "
            "Fix that line: JSON has double quotes, and no comma after the last entry."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not valid JSON: {error}. Save the file as UTF-8 text.") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f'{file} has to hold an object, such as {{"graphs": {{…}}}}.')
    return content


def _graph(file: Path, folder: Path, name: str, entry: Any) -> GraphEntry:
    key = f"graphs.{name}"
    graph = entry if isinstance(entry, dict) else {"path": entry}
    path, description = graph.get("path"), graph.get("description") or ""
    if not isinstance(path, str) or not path.strip():
        raise _error(file, key, 'it has to be a path, such as "./src/agent/graph.py:graph"')
    path = path.strip()
    place, colon, variable = path.partition(":")
    if place.endswith(_JAVASCRIPT):
        raise _error(file, key, f"{place} is JavaScript, and aion serves Python. Leave this graph out, in an aion.yaml")
    if place.endswith(".py"):
        target = (folder / place).resolve()
        if not target.is_relative_to(folder):
            raise _error(
                file, key, f"{place} is outside of {folder}, which is what is deployed. Move the file below that folder"
            )
        place = str(target.relative_to(folder))
    elif "/" in place or not re.fullmatch(r"[\w.]+", place):
        raise _error(file, key, f"{path!r} is neither file.py:name nor package.module:name. Fix the path")
    return GraphEntry(f"{place}{colon}{variable}", str(description))


def _roots(file: Path, folder: Path, entry: str) -> Iterator[Path]:
    """Yield the folders from which Python could import this local dependency if it was installed.

    For a package's folder this is the parent folder, because a package is imported by its name. For a project's folder
    these are the folder itself and its `src`.
    """
    place = (folder / entry).resolve()
    if not place.is_dir():
        raise _error(file, "dependencies", f"{entry!r} is not a folder. Fix the path, or create the folder")
    if (place / "src").is_dir():
        yield place / "src"
    if (place / "__init__.py").is_file():
        yield place.parent
        return
    yield place
    if place != folder and not any((place / name).is_file() for name in ("pyproject.toml", "setup.py")):
        yield place.parent


def _error(file: Path, key: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{file}: {key}: {problem}.")
