"""New project by a wheel without frameworks: the printed commands work.

`test_installed.py` creates, serves and builds one project of each framework.
"""

import sys
from pathlib import Path

import pytest

from tests.support.installed import Installed, installed

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="programs are looked for in bin"),
    # With an empty cache uv downloads a hundred packages.
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(tmp_path_factory.mktemp("local"), "local")


def test_printed_commands_work_in_new_project(local: Installed, tmp_path: Path) -> None:
    said = local.run("aion", "new", "my-agent", cwd=tmp_path)
    assert f"aion-lambda comes from {local.wheel}" in said
    commands = [line.strip() for line in said.partition("Next:\n")[2].splitlines()]
    assert commands == ["cd my-agent", "uv run aion dev", "uv run pytest"]
    folder = tmp_path / "my-agent"
    assert "2 passed" in local.run(*commands[-1].split(), cwd=folder)
    assert "are up to date with aion-lambda" in local.run("uv", "run", "aion", "upgrade", "--check", cwd=folder)
    assert "added to pyproject.toml" in local.run("uv", "run", "aion", "add", "cowsay", cwd=folder)
    local.run("uv", "run", "--locked", "python", "-c", "import cowsay", cwd=folder)
