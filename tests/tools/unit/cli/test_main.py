"""Errors of the command: missing packages and Ctrl-C."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aion_tools.cli.main import REMOVED, aion
from aion_tools.stack.stack import SETTINGS
from tests.support import operating
from tests.support.rows import each_row


def run(folder: Path, code: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run a command `aion own`, which executes this code, in a new process."""
    (folder / "authors.py").write_text("import nothing_of_this_name\n")
    main = f"""
import sys
import click
from aion_tools.cli import main

@main.aion.command()
def own() -> None:
    exec(compile({code!r}, "own", "exec"), {{"__name__": sys.argv[2], "click": click}})

own.params.append(click.Argument(["importer"], expose_value=False))
main.main()
"""
    importer = "aion_core.any" if "nothing_of" in code else "__main__"
    command = [sys.executable, "-c", main, "own", importer]
    encoding = environ.get("PYTHONIOENCODING")
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding=encoding, env={**os.environ, **environ}
    )


TO_INSTALL = (
    "is missing. Install aion-lambda[local]: `uv add --dev 'aion-lambda[local]'` or `pip install 'aion-lambda[local]'`; "
    "in a project of `aion new`, `uv sync`."
)


def without_moto(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process in which a package of the extra `local` seems missing."""
    code = "import sys; sys.modules['moto'] = None; from aion_tools.cli.__main__ import main; main()"
    return subprocess.run([sys.executable, "-c", code, *command], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "code", ["import nothing_of_this_name", "import importlib; importlib.import_module('nothing_of_this_name')"]
)
def test_missing_optional_package_error_names_extra_to_install(tmp_path: Path, code: str) -> None:
    done = run(tmp_path, code)
    assert (done.returncode, done.stderr) == (1, f"Error: nothing_of_this_name {TO_INSTALL}\n")


@each_row(("command", "code"), [("dev", 1), ("key list", 1), ("", 2), ("--help", 0)])
def test_command_without_extra_local_names_it(tmp_path: Path, command: str, code: int) -> None:
    """Run the command as in an installation without extras: in a folder without an agent, and before `aion new`."""
    done = without_moto(tmp_path, *command.split())
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, said.count(TO_INSTALL)) == (code, 1)
    assert "Traceback" not in said
    if code == 1:
        assert (done.stdout, done.stderr) == ("", f"Error: moto {TO_INSTALL}\n")


def test_help_needs_no_extra(tmp_path: Path) -> None:
    done = without_moto(tmp_path, "dev", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert TO_INSTALL not in done.stdout


@each_row("name", REMOVED)
def test_removed_command_names_its_replacement(name: str) -> None:
    failed = operating.runs({})(name, "any", "--option")
    assert (failed.exit_code, name in aion.commands) == (2, False)
    assert f"`aion {name}` is gone: {REMOVED[name]}." in failed.stderr


def test_import_error_in_authors_code_prints_traceback(tmp_path: Path) -> None:
    done = run(tmp_path, "import authors")
    assert done.returncode == 1
    assert "authors.py" in done.stderr
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'nothing_of_this_name'\n")


def test_full_disk_error_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "aion_tools.cli", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (ran.returncode, ran.stderr) == (1, "Error: The output cannot be written: No space left on device.\n")


def test_unusable_file_error_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    new = [sys.executable, "-m", "aion_tools.cli", "new", "file/mine", "--framework", "langgraph"]
    ran = subprocess.run(new, cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "Error: file/mine/vendor cannot be read or written: Not a directory.\n"


def test_unencodable_character_in_output_is_replaced(tmp_path: Path) -> None:
    done = run(tmp_path, "click.echo('“Ä” \\ud800')", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "?Ä? ?\n", "")


@pytest.mark.parametrize(
    ("module", "command", "code"),
    [
        ("aion_tools.cli.doctor", "doctor", 130),
        ("aion_tools.dev.supervisor", "dev", 0),
    ],
)
def test_ctrl_c_during_import_prints_no_traceback(module: str, command: str, code: int, tmp_path: Path) -> None:
    """Press Ctrl-C during the first import of a module: the command prints no traceback."""
    (tmp_path / "agent.py").write_text("from langgraph.graph import StateGraph\ngraph = StateGraph(dict).compile()\n")
    program = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from aion_tools.cli.__main__ import main\n"
        "main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, command], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (code, "")
    assert [line for line in ran.stderr.splitlines() if "agent.py" not in line] == []


def test_commands_are_listed_without_slow_imports() -> None:
    """Run `aion --help` and complete with Tab: this imports the commands' definitions, but not the modules they use."""
    slow = ("boto3", "fastapi", "httpx", "langchain_core", "pydantic", "rich", "yaml")
    code = f"import sys; from aion_tools.cli.main import aion; [*aion.commands.values()]; print([name for name in {slow} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_dev_command_imports_only_click_and_its_supervisor() -> None:
    """The process of `aion dev` runs as long as the server, beside the worker."""
    slow = ("a2a", "asyncio", "msgspec", "multiprocessing", "starlette", "watchfiles", "yaml")
    code = (
        "import sys\nfrom aion_tools.cli.main import aion\naion.commands['dev']\nimport aion_tools.dev.supervisor\n"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


@each_row("command", ["why t-1", "tasks list --expired", "push list"])
def test_failed_json_command_prints_nothing_to_standard_output(command: str) -> None:
    places = {"AION_TABLE": "t", "AION_BUCKET": "b", "AION_TASK_QUEUE_URL": "q", "AION_PUSH_QUEUE_URL": "q"}
    with operating.refusing_aws("ExpiredTokenException") as url:
        done = operating.process(*command.split(), "--json", **SETTINGS, **places, AWS_ENDPOINT_URL=url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: Your AWS credentials have expired. Sign in again (`aws sso login`).\n" in done.stderr
