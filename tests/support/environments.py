"""Environments of their own, Python's and Node's, for what does not go together with the project's lock."""

import shutil
import subprocess
import sys
from pathlib import Path

from aion_core.packaging import uv
from aion_core.packaging.file_lock import file_lock
from tests.support.server import ROOT


def python_with(requirements: Path) -> Path:
    """The interpreter of an environment that holds what the lock file names, made once; quick the second time."""
    environment = ROOT / ".cache" / f"{requirements.stem}-{sys.version_info.major}.{sys.version_info.minor}"
    python = environment / "bin" / "python"
    stamp = environment / requirements.name
    with file_lock(environment):
        if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
            program = uv.find()
            subprocess.run([program, "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
            subprocess.run(
                [program, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", requirements],
                check=True,
            )
            stamp.write_bytes(requirements.read_bytes())
    return python


def folder_with(requirements: Path, python: str, version: str) -> Path:
    """A folder with what the lock file names for an interpreter of this version, to be put on its path; made once."""
    folder = ROOT / ".cache" / f"{requirements.stem}-for-{version}"
    stamp = folder / requirements.name
    with file_lock(folder):
        if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
            shutil.rmtree(folder, ignore_errors=True)
            install: list[str | Path] = [uv.find(), "pip", "install", "--quiet", "--target", folder, "--python", python]
            only: list[str | Path] = [
                "--python-version",
                version,
                "--only-binary",
                ":all:",
                "--require-hashes",
                "-r",
                requirements,
            ]
            subprocess.run([*install, *only], check=True)
            stamp.write_bytes(requirements.read_bytes())
    return folder


def node_with(folder: Path) -> Path:
    """A folder with the programs of the given one and what its package-lock.json names, installed once.

    Raises NodeMissing where there is no Node to run them.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NodeMissing
    environment = ROOT / ".cache" / folder.name
    lock, stamp = folder / "package-lock.json", environment / "installed.json"
    with file_lock(environment):
        environment.mkdir(parents=True, exist_ok=True)
        for program in folder.iterdir():
            shutil.copy(program, environment)
        if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=environment, check=True)
            stamp.write_bytes(lock.read_bytes())
    return environment


def go_program(folder: Path, **sources: str) -> Path:
    """The program of the folder's Go module and of these sources, built anew where one of them has changed.

    Raises GoMissing where there is no Go, or where what the module requires cannot be had.
    """
    if shutil.which("go") is None:
        raise GoMissing("go is not there (1.19 or newer): https://go.dev")
    environment = ROOT / ".cache" / folder.name
    program = environment / "program"
    with file_lock(environment):
        environment.mkdir(parents=True, exist_ok=True)
        for source in folder.iterdir():
            shutil.copy(source, environment)
        for name, text in sources.items():
            (environment / f"{name}.go").write_text(text)
        command: list[str | Path] = ["go", "build", "-mod=mod", "-o", program, "."]
        built = subprocess.run(command, cwd=environment, capture_output=True, text=True)
    if built.returncode and "dial tcp" in built.stderr:
        raise GoMissing(f"What it requires cannot be had: {built.stderr.strip()}")
    assert built.returncode == 0, built.stderr
    return program


class NodeMissing(Exception):
    """Neither node nor npm can be run here."""

    def __init__(self) -> None:
        super().__init__("node and npm are not there (20 or newer): https://nodejs.org")


class GoMissing(Exception):
    """No Go program can be built here."""
