"""`aion new` and `aion init` on the command line."""

import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from aion_core import __version__
from tests.support import operating
from tests.support.installed import as_from_index
from tests.support.operating import RunCommand, refusal


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `aion` in an empty folder, without a network, so that no test locks dependencies."""
    as_from_index(tmp_path / "installed", monkeypatch)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / ".cache"))
    return operating.runs({})


@pytest.fixture
def here(run: RunCommand) -> Path:
    """Return the folder in which `run` runs."""
    return Path.cwd()


# --- new ---


@pytest.mark.parametrize(
    ("environ", "region"),
    [
        ({"AWS_REGION": "eu-west-1", "AWS_PROFILE": "far"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_PROFILE": "far"}, "ap-south-1"),
        ({"AWS_PROFILE": "missing"}, "us-east-1"),
        ({}, "us-east-1"),
    ],
    ids=lambda each: ", ".join(each) if isinstance(each, dict) else "",
)
def test_new_project_gets_developers_region(environ: dict[str, str], region: str, here: Path) -> None:
    (here / "config").write_text("[profile far]\nregion = ap-south-1\n")
    runs = operating.runs({"AWS_CONFIG_FILE": str(here / "config"), **environ})
    assert runs("new", "my-agent").exit_code == 0
    read = tomllib.loads((here / "my-agent" / "samconfig.toml").read_text())
    assert read["default"]["global"]["parameters"]["region"] == region


def test_new_command_lists_created_files_and_next_commands(run: RunCommand, here: Path) -> None:
    ran = run("new", "my-agent")
    assert ran.exit_code == 0, ran.output
    assert "Created my-agent in my-agent\n" in ran.output
    for path in ("agent.py", "aion.yaml", "template.yaml", ".github/workflows/deploy.yml"):
        assert f"  {path} " in ran.output
        assert (here / "my-agent" / path).is_file()
    commands = ran.output.partition("Next:\n")[2].split("\n")
    assert commands[0] == "  cd my-agent"
    assert commands[1].endswith("uv run aion dev")
    assert commands[2].endswith("uv run pytest")
    assert "langgraph" in (here / "my-agent" / "pyproject.toml").read_text(), "without a terminal nobody is asked"
    assert "uv.lock could not be written. Run `uv lock` in my-agent. Output of uv:\n" in ran.output
    assert not (here / "my-agent" / "uv.lock").exists()


def test_new_command_accepts_path(run: RunCommand, here: Path) -> None:
    run("new", here / "agents" / "My Agent's" / "one", "--framework", "executor")
    assert "executor = WordCounter()" in (here / "agents" / "My Agent's" / "one" / "agent.py").read_text()
    assert 'name = "one"' in (here / "agents" / "My Agent's" / "one" / "pyproject.toml").read_text()


def test_new_command_on_terminal_asks_for_framework(run: RunCommand, here: Path) -> None:
    mine, theirs = pty.openpty()
    with os.fdopen(mine, "r+b", buffering=0) as terminal:
        command = [sys.executable, "-m", "aion_tools.cli", "new", "my-agent"]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        terminal.write(b"adk\n")
        shown = b""
        while b"Next:" not in shown:
            shown += terminal.read(1024)
        process.wait()
    assert b"an ADK agent" in shown
    assert "LlmAgent" in (here / "my-agent" / "agent.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["new"], "Name the project: aion new my-agent."),
        (["new", "2nd"], "'2nd' is not a valid project name"),
        (["new", "langgraph"], "such as my-langgraph"),
        (["new", "--here", "--force"], "leave out --force"),
        (["new", "my-agent", "--framework", "crewai"], "'crewai' is not one of"),
    ],
)
def test_new_command_refuses_wrong_arguments(run: RunCommand, here: Path, arguments: list[str], sentence: str) -> None:
    ran = run(*arguments)
    assert ran.exit_code == 2
    assert sentence in " ".join(ran.output.split())
    assert not any(here.iterdir())


def test_new_command_overwrites_files_only_with_force(run: RunCommand, here: Path) -> None:
    run("new", "my-agent")
    (here / "my-agent" / "agent.py").write_text("mine\n")
    assert "Nothing was written" in refusal(run("new", "my-agent"))
    assert (here / "my-agent" / "agent.py").read_text() == "mine\n"
    assert run("new", "my-agent", "--force").exit_code == 0
    assert (here / "my-agent" / "agent.py").read_text() != "mine\n"


@pytest.mark.deep
def test_new_command_from_clone_puts_wheel_into_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here aion-lambda is installed from this repository. uv refuses to run beside a missing folder of UV_FIND_LINKS."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "dist"))
    ran = operating.runs({})("new", "my-agent")
    wheel = f"vendor/aion_lambda-{__version__}-py3-none-any.whl"
    assert f"No package index has this aion-lambda, so its wheel is {wheel}. Commit it.\n" in ran.output
    assert "  vendor/ " in ran.output
    assert {path.name for path in (tmp_path / "my-agent" / "vendor").iterdir()} == {Path(wheel).name}
    lock = tomllib.loads((tmp_path / "my-agent" / "uv.lock").read_text())
    assert [each["source"] for each in lock["package"] if each["name"] == "aion-lambda"] == [{"path": wheel}]
