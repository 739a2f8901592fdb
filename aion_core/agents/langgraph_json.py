"""langgraph.json, the file of LangGraph's own server: its graphs, dependencies and environment."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aion_core.errors import ConfigurationError

NAME = "langgraph.json"
_USED = ("graphs", "dependencies", "env", "$schema")
_JAVASCRIPT = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """A graph as the file names it."""

    path: str
    """`folder/file.py:name` or `package.module:name`, relative to the file's folder."""
    description: str = ""


@dataclass(frozen=True, slots=True)
class LangGraphJson:
    """The keys of the file that mean something to aion."""

    graphs: Mapping[str, GraphEntry]
    """By the ids of the file, which may hold any character."""
    roots: tuple[Path, ...]
    """The folders that the local `dependencies` make importable."""
    requirements: tuple[str, ...]
    """The other `dependencies`, as pip takes them."""
    env_file: Path | None
    """The file that `env` names, whether it exists or not; None where it names none."""
    env: Mapping[str, str]
    """The variables that `env` holds itself."""
    unused: tuple[str, ...]
    """The file's other keys, which have no effect."""


def read_langgraph_json(file: Path) -> LangGraphJson:
    """Return what the file declares; raises ConfigurationError that names the file, the key and the remedy."""
    content = _content(file)
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


def _content(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}. Mend the path.") from error
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{file} is no JSON: {error.msg} (line {error.lineno}, column {error.colno}). "
            "Mend that line: JSON has double quotes, and no comma after the last entry."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is no JSON: {error}. Save the file as UTF-8 text.") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f'{file} has to hold an object, such as {{"graphs": {{…}}}}.')
    return content


def _graph(file: Path, folder: Path, name: str, entry: Any) -> GraphEntry:
    key = f"graphs.{name}"
    said = entry if isinstance(entry, dict) else {"path": entry}
    path, description = said.get("path"), said.get("description") or ""
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
        raise _error(file, key, f"{path!r} is neither file.py:name nor package.module:name. Mend the path")
    return GraphEntry(f"{place}{colon}{variable}", str(description))


def _roots(file: Path, folder: Path, entry: str) -> Iterator[Path]:
    """Yield the folders that imports start from once this local dependency is installed.

    A package's own folder is imported by its name, so its parent counts; a project's is searched, and its `src`.
    """
    place = (folder / entry).resolve()
    if not place.is_dir():
        raise _error(file, "dependencies", f"{entry!r} is no folder. Mend the path, or make the folder")
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
