"""Location of the uv program."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path


class UvMissing(Exception):
    """uv is not installed."""

    def __init__(self) -> None:
        super().__init__("uv is not installed: https://docs.astral.sh/uv/getting-started/installation/")


def find_uv() -> str:
    """Return the path of uv: the one running this process, beside this Python, or on the path. Raises UvMissing."""
    beside = Path(sys.executable).with_name("uv")
    found = os.environ.get("UV") or (str(beside) if beside.is_file() else shutil.which("uv"))
    if found is None:
        raise UvMissing
    return found


@cache
def uv_version() -> str:
    """Return uv's version. Raises UvMissing."""
    done = subprocess.run([find_uv(), "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()
