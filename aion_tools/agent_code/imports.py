"""Imports and frameworks of an agent's code, found by parsing the code without running it."""

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_core.loading.frameworks import FRAMEWORKS, extras, framework_of_file
from aion_core.loading.importing.syntax import parsed

_OURS = ("aion", "aion_core", "aion_tools")
"""Names of aion's packages. Their imports do not show an agent's framework, because they support every framework."""


@dataclass(frozen=True)
class Import:
    """An import in a file of the project, with the project's files that it loads."""

    file: Path
    line: int
    name: str
    """Dotted name of the import. Empty for a relative import."""
    is_certain: bool
    """True if an import of the agent always runs this import statement, because it is at its module's top level."""
    found: tuple[Path, ...]


def imports(file: Path, roots: Sequence[Path]) -> Iterator[Import]:
    """Yield the imports of the file and, recursively, of the project's files that it imports.

    `roots` are the folders with the project's modules.
    """
    roots = [root.resolve() for root in roots]
    waiting, seen = [(file.resolve(), True)], set()
    while waiting:
        current, is_certain = waiting.pop()
        if (current, is_certain) in seen:
            continue
        seen.add((current, is_certain))
        for line, level, name, is_at_top in _statements(current):
            found = tuple(_found(current, level, name, roots))
            certain = is_certain and is_at_top
            yield Import(current, line, "" if level else name, certain, found)
            if level or name.split(".")[0] not in _OURS:
                waiting += [(each, certain) for each in found]


def loaded_files(agent: Path, roots: Sequence[Path]) -> set[Path]:
    """Return the project's Python files that every import of the agent loads, including files with syntax errors."""
    found = imports(agent, [*roots, agent.parent])
    files = {agent.resolve(), *(file for each in found if each.is_certain for file in each.found)}
    return {file for file in files if file.suffix == ".py"}


def missing(
    agents: Iterable[Path],
    roots: Sequence[Path],
    places: Sequence[Path],
    standard: Collection[str] = sys.stdlib_module_names,
) -> Iterator[Import]:
    """Yield the agents' imports that will fail.

    Such a module is not in the project, in a folder in `places`, or among the names of the standard modules.
    """
    for agent in agents:
        for each in imports(agent, [*roots, agent.parent]):
            if each.is_certain and each.name and not each.found and not _is_there(each.name, places, standard):
                yield each


def _found(file: Path, level: int, name: str, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the project's files loaded by an import of this name, including the files of its parent packages."""
    # In a relative import, one dot means the file's own folder, and each further dot means one parent folder more.
    bases = [file.parents[level - 1]] if level else roots
    steps = name.split(".") if name else []
    for length in range(0 if level else 1, len(steps) + 1):
        for base in bases:
            place = base.joinpath(*steps[:length])
            yield from (each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file())


def _statements(file: Path) -> Iterator[tuple[int, int, str, bool]]:
    """Yield each import in the file: line, number of leading dots, name, and True at the top level of the module.

    A file with a syntax error yields nothing.
    """
    tree = parsed(file)
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        is_at_top = id(node) in top
        if isinstance(node, ast.Import):
            yield from ((node.lineno, 0, alias.name, is_at_top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = f"{node.module}." if node.module else ""
            yield from ((node.lineno, node.level, f"{above}{alias.name}", is_at_top) for alias in node.names)


def _is_there(name: str, places: Sequence[Path], standard: Collection[str]) -> bool:
    """Return True if the standard library or one of these folders contains the module.

    For a module in a regular package, only the package's folder is checked.
    """
    first, *steps = name.split(".")
    if first in standard:
        return True
    for place in places:
        folder = place
        for step in (first, *steps):
            if (folder / f"{step}.py").is_file() or any(folder.glob(f"{step}.*so")):
                return True
            folder /= step
            if not folder.is_dir():
                break
            # Look in a namespace package, a folder without __init__.py, for the next part of the name.
            if (folder / "__init__.py").is_file():
                return True
        else:
            return True
    return False


def frameworks_of(file: Path, roots: Sequence[Path], otherwise: Iterable[str] = ()) -> set[str]:
    """Return the names of the frameworks imported by the agent's file, directly or through files in these folders.

    If no framework is imported, the agent may come from a third-party package. Then return `otherwise` or, if it is
    empty, every framework with an extra.
    """
    if (declared := framework_of_file(file.name)) is not None:
        return {declared}
    names = {each.name for each in imports(file, [*roots, file.parent])}
    found = {
        name
        for name, framework in FRAMEWORKS.items()
        for start in framework.imports
        if any(f"{each}.".startswith(f"{start}.") for each in names)
    }
    return found & extras() if found else set(otherwise or extras())
