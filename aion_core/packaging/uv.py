"""Where uv is: the one that runs us, the one beside our interpreter, or the one on the path."""

import os
import shutil
import sys
from pathlib import Path


class UvMissing(Exception):
    """uv is not there."""

    def __init__(self) -> None:
        super().__init__("uv is not there: https://docs.astral.sh/uv/getting-started/installation/")


def find() -> str:
    """Return the path of uv."""
    beside = Path(sys.executable).with_name("uv")
    found = os.environ.get("UV") or (str(beside) if beside.is_file() else shutil.which("uv"))
    if found is None:
        raise UvMissing
    return found
