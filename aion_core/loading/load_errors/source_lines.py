"""Places in the author's files, as error messages name them."""

import ast
import linecache
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aion_core.loading.importing.syntax import parsed


def source_location(file: Path | str | None, lines: Iterable[int], folder: Path) -> dict[str, str]:
    """Return the arguments `where` and `source` of AgentLoadError for these lines of the file; {} if `file` is None."""
    numbers = sorted({line for line in lines if line > 0})
    if file is None:
        return {}
    source = linecache.getline(str(file), numbers[0]).strip() if numbers else ""
    return {"where": location(str(file), numbers, folder), "source": source}


def display_path(file: Path | str, folder: Path) -> str:
    """Return the file's path. It is relative to the folder if the folder contains the file."""
    path = Path(file)
    for base in (folder, folder.resolve()):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)


def location(file: str, lines: list[int], folder: Path) -> str:
    """Return the file's path with the numbers of these lines, as text."""
    name = display_path(file, folder)
    if not lines:
        return name
    return f"{name}, line {lines[0]}" if len(lines) == 1 else f"{name}, lines {', '.join(map(str, lines))}"


def assignment_line(module: Any, name: str) -> int:
    """Return the number of the last line that assigns the name in the module; 0 if unknown."""
    tree = parsed(Path(getattr(module, "__file__", None) or ""))
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name)
    ]
    return max(lines, default=0)
