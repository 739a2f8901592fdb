"""Frameworks of a deployment's agents, recognised by the imports in their code; the code is not run."""

from collections.abc import Sequence
from pathlib import Path

from aion_core.agents.frameworks import FRAMEWORKS, extras, framework_of_file
from aion_core.packaging.imports import imports


def frameworks_of(file: Path, roots: Sequence[Path]) -> set[str]:
    """Return the frameworks with an extra that the agent's file imports, directly or through files in these folders.

    An agent without any known import comes from a third-party package: it may be of any framework.
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
