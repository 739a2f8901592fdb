"""Folders for the imports of an agent, and the files in which to look for it and for its server's settings."""

import sys
from collections.abc import Sequence
from pathlib import Path

YAML_AGENT = "root_agent.yaml"
"""File name of ADK's declarative agent configuration."""
LANGGRAPH_JSON = "langgraph.json"
"""File name of the configuration of LangGraph's server."""


def import_roots(folder: Path, more: Sequence[Path] = ()) -> list[Path]:
    """Return the folders for absolute imports, in order: `more`, the folder's `src` if it exists, the folder itself."""
    src = folder / "src"
    return [*more, *([src] if src.is_dir() and not is_package(src) else []), folder]


def agent_files(place: str, roots: Sequence[Path]) -> list[Path]:
    """Return the files in which to look for the agent at `place`; an empty list for an installed module.

    `place` is a file or a folder relative to the last root, or the dotted name of a module below one of the roots. For
    a folder, the files have ADK's order.
    """
    folder = roots[-1]
    if place.endswith(".py"):
        return [(folder / place).resolve()]
    if "/" in place or (folder / place).is_dir():
        return _files_of(folder / place)
    for root in roots:
        module = root.joinpath(*place.split("."))
        for file in (module.parent / f"{module.name}.py", module / "__init__.py"):
            if file.is_file():
                return _files_of(module) if file.name == "__init__.py" else [file.resolve()]
    return []


def _files_of(folder: Path) -> list[Path]:
    names = ("__init__.py", "agent.py", YAML_AGENT)
    return [(folder / name).resolve() for name in names if (folder / name).is_file()]


def put_on_path(roots: Sequence[Path]) -> None:
    """Insert these folders at the beginning of sys.path, in order, unless sys.path contains them already."""
    for root in reversed(roots):
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))


def is_package(folder: Path) -> bool:
    """Return True if the folder has an `__init__.py`."""
    return (folder / "__init__.py").is_file()
