"""Errors of `aion build`. tests/tools/e2e/test_packages.py tests the packages."""

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aion_tools.cli.build import build
from aion_tools.package import build as building
from aion_tools.package.lock import Lock


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("UV", "UV is {file}, which is not a program: correct or unset this variable"),
        (
            "AION_PACKAGE_CACHE",
            r"{file}\S* cannot be read or written \((?:Not a directory|File exists)\): name another folder by {name}",
        ),
    ],
)
def test_build_error_names_wrong_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    (tmp_path / "agent.py").write_text("from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n")
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    monkeypatch.setenv(name, str(tmp_path / "file"))
    done = CliRunner().invoke(build, ["TaskFunction"])
    assert done.exit_code == 1
    assert re.search(f"^aion build: {said.format(file=tmp_path / 'file', name=name)}\n$", done.stderr, re.MULTILINE)


@pytest.mark.skipif(sys.platform != "linux", reason="a folder in which even root may not write")
def test_build_with_readonly_cache_names_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent.py").write_text("from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AION_PACKAGE_CACHE", "/sys/packages")
    # Read the project without its dependencies, which need a package index.
    monkeypatch.setattr(building, "locked", lambda *_: Lock((), ()))
    done = CliRunner().invoke(build, ["TaskFunction"])
    assert done.exit_code == 1
    assert re.search(
        r"^aion build: /sys/packages\S* cannot be .*: name another folder by AION_PACKAGE_CACHE\n$",
        done.stderr,
        re.MULTILINE,
    )


def test_build_for_unknown_processor_lists_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_SAM_LOCAL_ARCHITECTURE", "riscv")
    done = CliRunner().invoke(build, ["TaskFunction"])
    assert done.exit_code == 2
    assert "'riscv' is not one of 'arm64', 'x86_64'" in done.stderr


def test_build_for_sam_names_unreadable_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent.py").write_text("from langgraph.graph import StateGraph\ngraph = StateGraph(dict)\n")
    (tmp_path / "aion.yaml").write_text("aion: {agents: {mine: {path: 'agent.py:graph'}}}\n")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\ndependencies = ["aion-lambda"]\n'
    )
    (tmp_path / ".env").write_bytes(b"SECRET=\xff")
    monkeypatch.chdir(tmp_path)
    # Read the project without its dependencies, which need a package index.
    monkeypatch.setattr(building, "locked", lambda *_: Lock((), ()))
    done = CliRunner().invoke(build, ["TaskFunction", "--to", str(tmp_path / ".aws-sam" / "build" / "TaskFunction")])
    assert (done.exit_code, str(done.exception)) == (1, f"{tmp_path}/.env cannot be read: it is not UTF-8.")
