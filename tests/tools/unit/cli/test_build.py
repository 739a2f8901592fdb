"""Errors of `aion build`. tests/tools/e2e/test_packages.py tests the packages."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from aion_tools.cli.build import build


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
