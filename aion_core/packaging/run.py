"""Programs of a build: uv and Python interpreters."""

import subprocess
from collections.abc import Sequence
from pathlib import Path


class BuildError(Exception):
    """A package cannot be built. The message names the fix."""


def run(command: Sequence[str], *, cwd: Path | None = None) -> str:
    """Run a program and return its standard output. Raises BuildError with its error output if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)  # noqa: S603 - no shell
    if done.returncode:
        raise BuildError(f"{' '.join(command[:3])} failed:\n{done.stderr.strip()}")
    return done.stdout
