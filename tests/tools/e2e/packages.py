"""Packages of the Lambda functions for this machine."""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from aion_tools.package.package import Package
from aion_tools.programs import machine_architecture
from aion_tools.shipped import shipped
from scripts.packages import built
from tests.support.e2e.runtime_emulator import lambda_python

ROOT = shipped()


def package_here(function: str, configs: Sequence[Path] | None = None) -> Package:
    """Return the function's package for this processor. Tests must not change its files."""
    return built(function, machine_architecture(), lambda_python()[1], tuple(configs or ()))


def file_states(folder: Path) -> dict[str, tuple[int, str]]:
    """Return mode and hash of each file of the folder."""
    return {
        file.relative_to(folder).as_posix(): (
            file.stat().st_mode,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def unpacked(function: str, target: Path, files: Mapping[str, str]) -> None:
    """Link the files of the built package into the folder; for a function with agents, add the project's files."""
    copied = shutil.copytree(package_here(function).code, target, copy_function=_linked)
    if (copied / "aion.yaml").exists():
        for name, text in files.items():
            # Remove the hard link first: writing to it would change the built package.
            file = copied / name
            file.unlink(missing_ok=True)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # copy the file, because a hard link needs both files on one device
        shutil.copy2(source, target)


def clone(folder: Path) -> Path:
    """Copy this repository into a new folder, without what its tools have made."""
    made = (".git", ".venv", ".sam", ".aws-sam", ".aion", ".cache", ".*_cache", "__pycache__")
    return shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*made))


def checkout(folder: Path) -> Path:
    """Copy the sources of the build into a folder, for a test to change."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("aion", "aion_core", "aion_tools", "examples", "handlers", "infra", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in (".aionignore", "aion.yaml", "pyproject.toml", "template.yaml", "uv.lock"):
        shutil.copy(ROOT / name, folder)
    return folder
