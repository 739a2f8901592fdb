"""Separate environments of Python, Node and Go, for dependencies incompatible with the project's lock."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from aion_tools.package.cache import file_lock
from aion_tools.programs import find_uv
from tests.support.server import ROOT


def python_with(requirements: Path) -> Path:
    """Return the interpreter of an environment with the lock file's packages; it is created once and reused.

    A file with hashes must have one for each package.
    """
    environment = ROOT / ".cache" / f"{requirements.stem}-{sys.version_info.major}.{sys.version_info.minor}"
    python = environment / "bin" / "python"
    stamp = environment / requirements.name
    with file_lock(environment):
        if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
            program = find_uv()
            hashes = ["--require-hashes"] if b"--hash" in requirements.read_bytes() else []
            subprocess.run([program, "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
            subprocess.run(
                [program, "pip", "install", "--quiet", "--python", python, *hashes, "-r", requirements], check=True
            )
            stamp.write_bytes(requirements.read_bytes())
    return python


def go_program(folder: Path, requirements: Path) -> Path:
    """Return the program of the Go module in `folder`, built by the toolchain that these requirements name."""
    go = python_with(requirements).with_name("go")
    environment = ROOT / ".cache" / folder.name
    program = environment / folder.name
    with file_lock(environment):
        environ = {**os.environ, "GOCACHE": str(environment / "build"), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        # Go itself knows whether the program is up to date.
        subprocess.run([go, "build", "-o", program, "."], cwd=folder, env=environ, check=True)
    return program


def node_with(folder: Path, *programs: Path) -> Path:
    """Return a folder with the packages of the package-lock.json in `folder`, installed once.

    It has copies of the other files of `folder`, and of these programs. Raise NodeMissing without Node.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NodeMissing
    environment = ROOT / ".cache" / folder.name
    lock, stamp = folder / "package-lock.json", environment / "installed.json"
    with file_lock(environment):
        environment.mkdir(parents=True, exist_ok=True)
        for program in (*(each for each in folder.iterdir() if each.is_file()), *programs):
            copy = environment / program.name
            # Leave an equal copy alone, because another process may be reading it.
            if not copy.exists() or copy.read_bytes() != program.read_bytes():
                shutil.copy(program, copy)
        if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=environment, check=True)
            stamp.write_bytes(lock.read_bytes())
    return environment


class NodeMissing(Exception):
    """Node or npm is not installed here."""

    def __init__(self) -> None:
        super().__init__("node and npm are not there (20 or newer): https://nodejs.org")
