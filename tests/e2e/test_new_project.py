"""A project of each framework, made by the wheel of this repository in an environment of its own: its tests pass."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from aion_core.packaging import uv
from aion_core.project.frameworks import OBJECTS
from tests.support.server import ROOT

# Where uv has none of the packages yet, it fetches a hundred.
pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, cwd: Path, home: Path) -> str:
    """The output of a command, with nothing of this environment but the path to the system's programs and uv's cache."""
    cache = subprocess.run([uv.find(), "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home), "UV_CACHE_DIR": cache}
    environ |= {name: value for name, value in os.environ.items() if name.startswith("SSL_") or name.endswith("_proxy")}
    ran = subprocess.run([*command], cwd=cwd, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(uv.find(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT, cwd=ROOT, home=home)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """The programs of an environment with the wheel and no framework."""
    environment = tmp_path_factory.mktemp("environment")
    run(uv.find(), "venv", "--quiet", "--python", sys.executable, environment, cwd=environment, home=home)
    named = f"aion-lambda[local] @ {wheel.as_uri()}"
    run(uv.find(), "pip", "install", "--quiet", "--python", environment, named, cwd=environment, home=home)
    return environment / "bin"


@pytest.mark.parametrize(
    "framework", [pytest.param(each, marks=[] if each == "langgraph" else [pytest.mark.deep]) for each in OBJECTS]
)
def test_new_project_passes_its_tests(framework: str, programs: Path, wheel: Path, home: Path, tmp_path: Path) -> None:
    said = run(programs / "aion", "new", "my-agent", "--framework", framework, cwd=tmp_path, home=home)
    project = tmp_path / "my-agent"
    assert f"aion-lambda is taken from {wheel}" in said
    assert tomllib.loads((project / "uv.lock").read_text())["package"]
    # The command as `aion new` says it, by the uv that came with it.
    [command] = [line.strip() for line in said.splitlines() if line.endswith("run pytest")]
    assert command == f"{programs / 'uv'} run pytest"
    assert "2 passed" in run(*command.split(), cwd=project, home=home)
    assert "are those of aion-lambda" in run(project / ".venv/bin/aion", "upgrade", "--check", cwd=project, home=home)
    assert {"aion", "pytest", "uv"} <= {program.name for program in (project / ".venv" / "bin").iterdir()}
