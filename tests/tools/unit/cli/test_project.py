"""`aion new`, `init`, `upgrade` and `add` on the command line."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from aion_core import __version__
from aion_tools.project import base
from aion_tools.project.files import shipped_files
from aion_tools.shipped import shipped
from tests.support import operating
from tests.support.operating import RunCommand, refusal


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `aion` in an empty folder, without a network, so that no test locks dependencies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / ".cache"))
    return operating.runs({})


def older(project: Path, path: str = "template.yaml") -> None:
    """Replace a project's file by the version of an older aion-lambda."""
    old = (project / path).read_text().replace("Description:", "# Older.\nDescription:", 1)
    (project / path).write_text(old)
    base.write(project, {**base.read(project).files, path: old}, "0.0.9")


# --- new ---


def test_new_command_lists_created_files_and_next_commands(run: RunCommand, tmp_path: Path) -> None:
    ran = run("new", "my-agent")
    assert ran.exit_code == 0, ran.output
    assert "Created my-agent in my-agent\n" in ran.output
    for path in ("agent.py", "aion.yaml", "template.yaml", ".github/workflows/deploy.yml"):
        assert f"  {path} " in ran.output
        assert (tmp_path / "my-agent" / path).is_file()
    commands = ran.output.partition("Next:\n")[2].split("\n")
    assert commands[0] == "  cd my-agent"
    assert commands[1].endswith("uv run aion dev")
    assert commands[2].endswith("uv run pytest")


def test_new_command_without_network_suggests_uv_lock(run: RunCommand, tmp_path: Path) -> None:
    ran = run("new", "my-agent")
    assert "uv.lock could not be written. Run `uv lock` in my-agent. Output of uv:\n" in ran.output
    assert not (tmp_path / "my-agent" / "uv.lock").exists()


def test_new_command_prints_origin_of_aion_package(run: RunCommand) -> None:
    """Here aion-lambda is installed from this repository's folder, so the command names this folder."""
    assert f"aion-lambda comes from {shipped()}" in run("new", "my-agent").output


def test_new_command_accepts_path(run: RunCommand, tmp_path: Path) -> None:
    run("new", tmp_path / "agents" / "My Agent's" / "one", "--framework", "executor")
    assert "executor = WordCounter()" in (tmp_path / "agents" / "My Agent's" / "one" / "agent.py").read_text()
    assert 'name = "one"' in (tmp_path / "agents" / "My Agent's" / "one" / "pyproject.toml").read_text()


def test_new_command_without_terminal_creates_langgraph_project(run: RunCommand, tmp_path: Path) -> None:
    run("new", "my-agent")
    assert "langgraph" in (tmp_path / "my-agent" / "pyproject.toml").read_text()


def test_new_command_on_terminal_asks_for_framework(tmp_path: Path) -> None:
    mine, theirs = pty.openpty()
    with os.fdopen(mine, "r+b", buffering=0) as terminal:
        environ = {**os.environ, "UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / ".cache")}
        command = [sys.executable, "-m", "aion_tools.cli", "new", "my-agent"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        terminal.write(b"adk\n")
        shown = b""
        while b"Next:" not in shown:
            shown += terminal.read(1024)
        process.wait()
    assert b"an ADK agent" in shown
    assert "LlmAgent" in (tmp_path / "my-agent" / "agent.py").read_text()


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
def test_new_command_refuses_wrong_arguments(
    run: RunCommand, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    ran = run(*arguments)
    assert ran.exit_code == 2
    assert sentence in " ".join(ran.output.split())
    assert not any(tmp_path.iterdir())


def test_new_command_overwrites_files_only_with_force(run: RunCommand, tmp_path: Path) -> None:
    run("new", "my-agent")
    (tmp_path / "my-agent" / "agent.py").write_text("mine\n")
    assert "Nothing was written" in refusal(run("new", "my-agent"))
    assert (tmp_path / "my-agent" / "agent.py").read_text() == "mine\n"
    assert run("new", "my-agent", "--force").exit_code == 0
    assert (tmp_path / "my-agent" / "agent.py").read_text() != "mine\n"


# --- upgrade ---


def test_upgrade_reports_that_project_is_up_to_date(run: RunCommand, tmp_path: Path) -> None:
    run("new", "--here", "my-agent")
    ran = run("upgrade", "--check")
    assert ran.output == f"template.yaml, infra/ and the Makefile are up to date with aion-lambda {__version__}.\n"
    assert ran.exit_code == 0


def test_upgrade_prints_differences_and_writes_new_files(run: RunCommand, tmp_path: Path) -> None:
    run("new", "--here", "my-agent")
    older(tmp_path)
    ran = run("upgrade", "--yes")
    assert ran.exit_code == 0, ran.output
    assert "--- a/template.yaml\n+++ b/template.yaml\n" in ran.output
    assert "\n-# Older.\n" in ran.output
    assert f"aion-lambda 0.0.9 -> {__version__}\n" in ran.output
    assert (tmp_path / "template.yaml").read_text() == shipped_files(shipped())["template.yaml"]
    assert run("upgrade", "--check").exit_code == 0


@pytest.mark.parametrize(("option", "code", "shows"), [("--check", 1, False), ("--diff", 0, True)])
def test_upgrade_dry_run_changes_nothing(run: RunCommand, tmp_path: Path, option: str, code: int, shows: bool) -> None:
    run("new", "--here", "my-agent")
    older(tmp_path)
    before = (tmp_path / "template.yaml").read_text()
    ran = run("upgrade", option)
    assert ran.exit_code == code
    assert ("-# Older." in ran.output) is shows
    assert "  template.yaml               replaced\n" in ran.output
    assert (tmp_path / "template.yaml").read_text() == before


def test_upgrade_without_terminal_needs_yes(run: RunCommand, tmp_path: Path) -> None:
    run("new", "--here", "my-agent")
    older(tmp_path)
    before = (tmp_path / "template.yaml").read_text()
    ran = run("upgrade")
    assert (ran.exit_code, "give --yes." in ran.output) == (2, True)
    assert (tmp_path / "template.yaml").read_text() == before


def test_upgrade_exits_1_for_conflicts(run: RunCommand, tmp_path: Path) -> None:
    run("new", "--here", "my-agent")
    older(tmp_path)
    mine = (tmp_path / "template.yaml").read_text().replace("# Older.", "# Mine.")
    (tmp_path / "template.yaml").write_text(mine)
    ran = run("upgrade", "--yes")
    assert ran.exit_code == 1
    assert "Unresolved: template.yaml.new." in ran.output
    assert (tmp_path / "template.yaml").read_text() == mine
    checked = run("upgrade", "--check")
    assert (checked.exit_code, "template.yaml.new           unresolved" in checked.output) == (1, True)


def test_upgrade_leaves_files_edited_by_author_unchanged(run: RunCommand, tmp_path: Path) -> None:
    run("new", "--here", "my-agent")
    older(tmp_path)
    mine = {"agent.py": "mine\n", "aion.yaml": "mine\n", "samconfig.toml": "mine\n", "Makefile": "all:\n\ttrue\n"}
    for path, text in mine.items():
        (tmp_path / path).write_text(text)
    run("upgrade", "--yes")
    assert {path: (tmp_path / path).read_text() for path in mine} == mine


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_upgrade_diff_is_coloured_on_terminal_unless_no_color(
    run: RunCommand, tmp_path: Path, no_color: str, coloured: bool
) -> None:
    run("new", "--here", "my-agent")
    older(tmp_path)
    assert "\x1b[" not in run("upgrade", "--diff").output
    ran = run("upgrade", "--diff", color=True, env={"NO_COLOR": no_color})
    assert ("\x1b[31m-# Older.\x1b[0m" in ran.output) is coloured


def test_upgrade_outside_project_suggests_aion_init(run: RunCommand) -> None:
    said = refusal(run("upgrade"))
    assert "There is no project here" in said
    assert "Run `aion init`" in said


# --- add ---


def test_add_command_outside_project_suggests_uvx_command(run: RunCommand) -> None:
    assert "uvx --with langchain-openai" in refusal(run("add", "langchain-openai"))


def test_add_command_requires_package_name(run: RunCommand) -> None:
    assert run("add").exit_code == 2
