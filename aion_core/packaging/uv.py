"""Location of the uv program: the one that runs us, the one beside our interpreter, or the one on the path."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path


class UvMissing(Exception):
    """uv is not there."""

    def __init__(self) -> None:
        super().__init__("uv is not there: https://docs.astral.sh/uv/getting-started/installation/")


def find() -> str:
    """Return the path of uv; raises UvMissing."""
    beside = Path(sys.executable).with_name("uv")
    found = os.environ.get("UV") or (str(beside) if beside.is_file() else shutil.which("uv"))
    if found is None:
        raise UvMissing
    return found


@cache
def version() -> str:
    """Return uv's version; raises UvMissing."""
    asked = subprocess.run([find(), "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    return asked.stdout.strip()
