"""Frameworks of the project's agents, found in their import statements."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from aion_core.agents.frameworks import extras
from aion_core.packaging.frameworks import frameworks_of


def frameworks_used(paths: Iterable[str], roots: Sequence[Path]) -> list[str]:
    """Return the frameworks of the agents at these paths. An agent without a recognised import is skipped.

    Paths and imports are resolved in each folder of `roots` and in its `src`.
    """
    used: set[str] = set()
    folders = [folder for root in roots for folder in (root, root / "src")]
    for path in paths:
        place = path.partition(":")[0]
        # A file, a module, a package, or an ADK agent's folder.
        parts = place if place.endswith(".py") else place.replace(".", "/")
        names = [place] if place.endswith(".py") else [f"{parts}.py", f"{parts}/__init__.py", f"{parts}/agent.py"]
        for file in (folder / name for folder in folders for name in names):
            found = frameworks_of(file, folders) if file.is_file() else extras()
            used |= found if found != extras() else set()
    return sorted(used)
