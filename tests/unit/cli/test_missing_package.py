"""Packages that are not installed: one of an extra is a sentence, one of an author's code a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest


def run(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """Run `aion own`, a command with this code, in a process of its own."""
    (folder / "authors.py").write_text("import nothing_of_this_name\n")
    main = f"""
import sys
import click
from aion_core.cli import main

@main.aion.command()
def own() -> None:
    exec(compile({code!r}, "own", "exec"), {{"__name__": sys.argv[2]}})

own.params.append(click.Argument(["importer"], expose_value=False))
main.main()
"""
    importer = "aion_core.any" if "nothing_of" in code else "__main__"
    command = [sys.executable, "-c", main, "own", importer]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "code", ["import nothing_of_this_name", "import importlib; importlib.import_module('nothing_of_this_name')"]
)
def test_missing_package_of_extra_is_named(tmp_path: Path, code: str) -> None:
    done = run(tmp_path, code)
    assert (done.returncode, done.stderr) == (
        1,
        "aion: nothing_of_this_name is missing: install aion-lambda[local] "
        "(`uv sync` in a project that `aion new` made).\n",
    )


def test_missing_package_of_author_is_traceback(tmp_path: Path) -> None:
    done = run(tmp_path, "import authors")
    assert done.returncode == 1
    assert "authors.py" in done.stderr
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'nothing_of_this_name'\n")
