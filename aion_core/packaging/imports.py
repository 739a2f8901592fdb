"""What an agent's code imports, of the project's own files and of others; it is read, and none of it is run."""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_OURS = ("aion", "aion_core")
"""What serves agents of any kind: what it imports tells nothing of one."""


@dataclass(frozen=True)
class Import:
    """A name that a file imports, and the project's files that it may be found in."""

    file: Path
    name: str
    """With dots; empty where it is told by dots alone, from the file's own folder on."""
    is_certain: bool
    """It is imported whenever the agent is, not by a function, or where something else would do."""
    found: tuple[Path, ...]


def imports(file: Path, roots: Sequence[Path]) -> Iterator[Import]:
    """Yield what the file imports, and the files of the project that it imports, in turn.

    `roots` are the folders in which Python looks for the project's own files.
    """
    roots = [root.resolve() for root in roots]
    waiting, seen = [(file.resolve(), True)], set()
    while waiting:
        current, is_certain = waiting.pop()
        if (current, is_certain) in seen:
            continue
        seen.add((current, is_certain))
        for level, name, is_at_top in _statements(current):
            found = tuple(_found(current, level, name, roots))
            certain = is_certain and is_at_top
            yield Import(current, "" if level else name, certain, found)
            if level or name.split(".")[0] not in _OURS:
                waiting += [(each, certain) for each in found]


def missing(agents: Iterable[Path], roots: Sequence[Path], places: Sequence[Path]) -> Iterator[Import]:
    """Yield what the agents are certain to import and find in none of these places, where packages lie."""
    for agent in agents:
        for each in imports(agent, [*roots, agent.parent]):
            if each.is_certain and each.name and not each.found and not _is_there(each.name, places):
                yield each


def _found(file: Path, level: int, name: str, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that a name, and those above it, may stand for."""
    # One dot is the file's own folder, each further one the folder above.
    bases = [file.parents[level - 1]] if level else roots
    steps = name.split(".") if name else []
    for length in range(0 if level else 1, len(steps) + 1):
        for base in bases:
            place = base.joinpath(*steps[:length])
            yield from (each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file())


def _statements(file: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield what a file's import statements name: how many dots, the name, and whether each import of the file runs it.

    What is no Python names nothing.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        is_at_top = id(node) in top
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, is_at_top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = f"{node.module}." if node.module else ""
            yield from ((node.level, f"{above}{alias.name}", is_at_top) for alias in node.names)


def _is_there(name: str, places: Sequence[Path]) -> bool:
    """Say whether Python has the module, or one of these folders; of a package with code of its own the first step tells."""
    first, *steps = name.split(".")
    if first in sys.stdlib_module_names or first in sys.builtin_module_names:
        return True
    for place in places:
        folder = place
        for step in (first, *steps):
            if (folder / f"{step}.py").is_file() or any(folder.glob(f"{step}.*so")):
                return True
            folder /= step
            if not folder.is_dir():
                break
            # A namespace has nothing of its own: the next step has to be there too.
            if (folder / "__init__.py").is_file():
                return True
        else:
            return True
    return False
