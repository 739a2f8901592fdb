"""The functions' packages as this machine can run them: one build for all tests, and for the runs that follow."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from aion_core.packaging.files import files_of
from aion_core.packaging.packages import Package, package
from aion_core.shipped import shipped
from infra.sam_local import machine_architecture
from tests.support.runtime_emulator import lambda_python

ROOT = shipped()


def package_here(function: str, configs: Sequence[Path] | None = None) -> Package:
    """The function's package for this machine's processor and, where it is there, Lambda's Python; not to be changed."""
    return package(
        function, folder=ROOT, architecture=machine_architecture(), python=lambda_python()[1], configs=configs
    )


def told_of(folder: Path) -> dict[str, tuple[int, float, str]]:
    """Mode, time and hash of each of a folder's files: what a zip could tell of it."""
    return {
        file.relative_to(folder).as_posix(): (
            file.stat().st_mode,
            file.stat().st_mtime,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in files_of(folder)
    }


def checkout(folder: Path) -> Path:
    """What a build needs of a fresh checkout, in a folder where a test may change it."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("aion", "aion_core", "examples", "handlers", "infra"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in (".aionignore", "aion.yaml", "pyproject.toml", "template.yaml", "uv.lock"):
        shutil.copy(ROOT / name, folder)
    return folder
