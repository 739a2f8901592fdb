"""Separate environments of Python and Node, for dependencies incompatible with the project's lock."""

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


def node_with(folder: Path) -> Path:
    """Return a folder with copies of the files in `folder` and the packages of its package-lock.json, installed once.

    Raise NodeMissing without Node.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NodeMissing
    environment = ROOT / ".cache" / folder.name
    lock, stamp = folder / "package-lock.json", environment / "installed.json"
    with file_lock(environment):
        environment.mkdir(parents=True, exist_ok=True)
        for program in (each for each in folder.iterdir() if each.is_file()):
            shutil.copy(program, environment)
        if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=environment, check=True)
            stamp.write_bytes(lock.read_bytes())
    return environment


class NodeMissing(Exception):
    """Node or npm is not installed here."""

    def __init__(self) -> None:
        super().__init__("node and npm are not there (20 or newer): https://nodejs.org")
