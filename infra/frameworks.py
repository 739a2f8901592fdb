"""Which frameworks a deployment's agents are written with, told by what their code imports; none of it is run."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

_BY_IMPORT = {
    "google.adk": "adk",
    "aion.adk": "adk",
    "langgraph": "langgraph",
    "langchain": "langgraph",
    "langchain_core": "langgraph",
    "aion.langgraph": "langgraph",
    # An AgentExecutor of the SDK's needs what its own code imports, and no more.
    "a2a.server": "",
}
"""The framework that an import tells of; the names below it tell of it, too."""
FRAMEWORKS = frozenset(filter(None, _BY_IMPORT.values()))
_OURS = ("aion", "aion_core")
"""What serves agents of any kind: what it imports tells nothing of one."""


def frameworks_of(file: Path, folder: Path) -> set[str]:
    """Return the frameworks that the agent's file imports, by itself or by a file of the folder's that it imports.

    Where no import tells of one the agent comes from somebody else's package: it may be of any.
    """
    told = {_BY_IMPORT[name] for name in _imported(file, [folder, file.parent]) if name in _BY_IMPORT}
    return {framework for framework in told if framework} if told else set(FRAMEWORKS)


def _imported(file: Path, roots: Iterable[Path]) -> Iterator[str]:
    """Yield each name that is imported, with those above it, from the file on through those that it imports."""
    seen: set[Path] = set()
    waiting = [file.resolve()]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for level, name in _statements(current):
            # One dot is the file's own folder, each further one the folder above.
            bases = [current.parents[level - 1]] if level else [root.resolve() for root in roots]
            steps = name.split(".") if name else []
            for length in range(len(steps) + 1):
                if length and not level:
                    yield ".".join(steps[:length])
                if not level and steps[0] in _OURS:
                    continue
                places = [base.joinpath(*steps[:length]) for base in bases if length or level]
                candidates = [each for place in places for each in (place.with_suffix(".py"), place / "__init__.py")]
                waiting += [each for each in candidates if each.is_file()]


def _statements(file: Path) -> Iterator[tuple[int, str]]:
    """Yield what a file's import statements name: how many dots, and the name; what is no Python names nothing."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = f"{node.module}." if node.module else ""
            yield from ((node.level, f"{above}{alias.name}") for alias in node.names)
