"""Installation of the wheel into its own environment, in an empty home, as for a user."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import pytest

from aion_tools.package.cache import cache as package_cache
from aion_tools.programs import find_uv
from aion_tools.shipped import shipped


def wheel(folder: Path) -> Path:
    """Put the wheel of this checkout into the folder. A process builds it once."""
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(_built(), folder))


@cache
def _built() -> Path:
    command = [find_uv(), "build", "--quiet", "--wheel", "--out-dir", _PLACE.name, str(shipped())]
    subprocess.run(command, check=True)
    (built,) = Path(_PLACE.name).glob("*.whl")
    return built


_PLACE = tempfile.TemporaryDirectory()


def as_from_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put metadata of aion-lambda into the folder, and the folder first on sys.path, as if a package index had it."""
    found = distribution("aion-lambda")
    info = folder / f"aion_lambda-{found.version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(str(found.read_text("METADATA")))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))


@dataclass(frozen=True)
class Installed:
    """Environment with the wheel, and an empty home folder."""

    programs: Path
    home: Path
    wheel: Path

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables of a user's shell; all environments share uv's download cache and the built packages."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "LANG", "SSL_"))}
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{self.programs}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin",
            "AION_PACKAGE_CACHE": str(package_cache()),
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or _uv_cache(),
            "PYENV_ROOT": os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv"),
        }

    def run(self, *command: str, cwd: Path, fails: bool = False, **environ: str) -> str:
        """Run a program of the environment; return all its output. Raise AssertionError for an unexpected exit code."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert (done.returncode != 0) is fails, done.stdout
        return done.stdout


def installed(folder: Path, *extras: str) -> Installed:
    """Create an environment in the folder, and install the wheel with these extras in it."""
    home, environment = folder / "home", folder / "environment"
    home.mkdir()
    built = wheel(folder / "dist")
    subprocess.run([find_uv(), "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
    made = Installed(environment / "bin", home, built)
    requirement = f"aion-lambda[{','.join(extras)}] @ {built.as_uri()}" if extras else f"aion-lambda @ {built.as_uri()}"
    command = [find_uv(), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python"), requirement]
    subprocess.run(command, check=True)
    return made


@cache
def _uv_cache() -> str:
    return subprocess.run([find_uv(), "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
