"""uv, run in a project's folder."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from aion_core.packaging import uv

_OF_OUR_OWN_RUN = ("VIRTUAL_ENV", "UV_RUN_RECURSION_DEPTH")
"""Variables of this program's own environment; uv takes the project's instead."""


def uv_run(folder: Path, arguments: Sequence[str]) -> str:
    """Run uv in the folder; return "" where it succeeds, else its own words. Raises UvMissing."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_OUR_OWN_RUN}
    command = [uv.find(), *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)  # noqa: S603 - no shell
    return "" if ran.returncode == 0 else (ran.stderr.strip() or ran.stdout.strip() or f"uv exits {ran.returncode}")
