"""Runs the programs that a build needs, and names what went wrong."""

import subprocess
from collections.abc import Sequence
from pathlib import Path


class BuildError(Exception):
    """A package cannot be built; the message says what to mend."""


def run(command: Sequence[str], *, cwd: Path | None = None) -> str:
    """Run a program and return its standard output; raises BuildError with its error text where it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)  # noqa: S603 - no shell, and our own words
    if done.returncode:
        raise BuildError(f"{' '.join(command[:3])} failed:\n{done.stderr.strip()}")
    return done.stdout
