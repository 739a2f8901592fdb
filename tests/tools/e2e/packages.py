"""Packages of the Lambda functions for this machine, built once and cached for all tests and later runs."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from aion_tools.package.files import files_of
from aion_tools.package.packages import Package, package
from aion_tools.shipped import shipped
from scripts.sam_local import machine_architecture
from tests.support.e2e.runtime_emulator import lambda_python

ROOT = shipped()


def package_here(function: str, configs: Sequence[Path] | None = None) -> Package:
    """Return the function's cached package for this processor. Tests must not change its files."""
    return package(
        function, folder=ROOT, architecture=machine_architecture(), python=lambda_python()[1], configs=configs
    )


def file_states(folder: Path) -> dict[str, tuple[int, float, str]]:
    """Return mode, modification time and hash of each file that a zip of the folder would contain."""
    return {
        file.relative_to(folder).as_posix(): (
            file.stat().st_mode,
            file.stat().st_mtime,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in files_of(folder)
    }


def checkout(folder: Path) -> Path:
    """Copy the sources of the build into a folder, for a test to change."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("aion", "aion_core", "aion_tools", "examples", "handlers", "infra", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in (".aionignore", "aion.yaml", "pyproject.toml", "template.yaml", "uv.lock"):
        shutil.copy(ROOT / name, folder)
    return folder
