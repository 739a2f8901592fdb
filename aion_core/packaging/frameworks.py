"""Frameworks of agents, recognised by the imports in their code without running it."""

from collections.abc import Sequence
from pathlib import Path

from aion_core.agents.frameworks import FRAMEWORKS, extras, framework_of_file
from aion_core.packaging.imports import imports


def frameworks_of(file: Path, roots: Sequence[Path]) -> set[str]:
    """Return the frameworks imported by the agent's file, directly or through files in these folders.

    An agent without a known import comes from a third-party package: return every framework with an extra.
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
    return found & extras() if found else set(extras())
