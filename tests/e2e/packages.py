"""Packages of the functions for this machine: one build for all tests and all following runs."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from aion_core.packaging.files import files_of
from aion_core.packaging.packages import Package, package
from aion_core.shipped import shipped
from infra.sam_local import machine_architecture
from tests.e2e.runtime_emulator import lambda_python

ROOT = shipped()


def package_here(function: str, configs: Sequence[Path] | None = None) -> Package:
    """Return the function's package for this processor and Lambda's Python, if installed; do not change it."""
    return package(
        function, folder=ROOT, architecture=machine_architecture(), python=lambda_python()[1], configs=configs
    )


def file_states(folder: Path) -> dict[str, tuple[int, float, str]]:
    """Return mode, time and hash of each of a folder's files, as far as a zip contains them."""
    return {
        file.relative_to(folder).as_posix(): (
            file.stat().st_mode,
            file.stat().st_mtime,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in files_of(folder)
    }


def checkout(folder: Path) -> Path:
    """Copy the build's input from a fresh checkout into a folder; a test may change it."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("aion", "aion_core", "examples", "handlers", "infra"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in (".aionignore", "aion.yaml", "pyproject.toml", "template.yaml", "uv.lock"):
        shutil.copy(ROOT / name, folder)
    return folder
