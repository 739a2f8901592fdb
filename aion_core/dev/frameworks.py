"""Frameworks that the agents' code imports, as far as its text says."""

from collections.abc import Iterable
from pathlib import Path

from aion_core.packaging.frameworks import FRAMEWORKS, frameworks_of


def frameworks_used(paths: Iterable[str], folder: Path) -> list[str]:
    """Return the frameworks of the agents at these paths; one whose code does not tell is left out."""
    used: set[str] = set()
    for path in paths:
        place = path.partition(":")[0]
        names = (
            [place]
            if place.endswith(".py")
            else [f"{place.replace('.', '/')}{end}" for end in (".py", "/__init__.py", "/agent.py")]
        )
        for file in (root / name for root in (folder, folder / "src") for name in names):
            if file.is_file():
                told = frameworks_of(file, folder)
                used |= told if told != FRAMEWORKS else set()
    return sorted(used)
