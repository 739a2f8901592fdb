"""langgraph.json, the configuration file of LangGraph's server."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from aion_core.errors import ConfigurationError

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
    notices: tuple[str, ...]
    """Sentences about unused keys whose loss the author should know of, one line each."""


def read_langgraph_json(file: Path) -> LangGraphJson:
    """Read a langgraph.json. Raises ConfigurationError with the file, the invalid key and the remedy."""
    content = _read_json(file)
    folder = file.resolve().parent
    graphs = content.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise _error(file, "graphs", 'it has to name at least one graph, as in {"agent": "./src/agent/graph.py:graph"}')
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
        notices=tuple(_notices(content)),
    )


def _notices(content: Mapping[str, Any]) -> Iterator[str]:
    if content.get("auth"):
        yield (
            "Warning: `auth` of langgraph.json protects nothing here: aion does not run its code. Declare who may call the "
            "agents under `security` in aion.yaml; without it, a deployment takes requests signed for AWS IAM only."
        )
    store = content.get("store")
    if isinstance(store, dict) and store.get("index"):
        yield "`store.index` of langgraph.json is not used: a search in the store filters its items, but does not rank them."
    python = re.fullmatch(r"3\.(\d+)", str(content.get("python_version", "")))
    if python is not None and int(python[1]) > sys.version_info.minor:
        yield f"langgraph.json names Python {python[0]}, and this is Python 3.{sys.version_info.minor}."


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
