"""README: its commands are those of the quickstart, and its table names the locked package versions."""

import re
import tomllib
from datetime import date

import pytest

from aion_core import __version__
from aion_tools.cli.main import aion
from tests.support.pages import Block, blocks
from tests.support.server import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
ALTERNATIVES = README.partition("\n## Comparison with other servers\n")[2].partition("\n## ")[0]


def commands(block: Block) -> list[str]:
    return [line.partition("  #")[0].strip() for line in block.code.splitlines() if not line.startswith("#")]


def test_first_commands_of_readme_are_in_quickstart() -> None:
    """`make test-deep` runs the quickstart, and so these commands; tests/tools/e2e/test_dev.py runs the others."""
    known = {command for block in blocks("docs/quickstart.md", "sh") for command in commands(block)}
    for block in blocks("README.md", "sh"):
        if not block.code.startswith(("make ", "curl ")):
            assert set(commands(block)) <= known


def test_readme_lists_each_command() -> None:
    table = README.partition("\n## Commands\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`aion ([\w-]+)", table)) == set(aion.commands), "Correct the table of commands in README.md."


@pytest.mark.parametrize("package", ["a2a-sdk", "google-adk"])
def test_comparison_table_in_readme_names_locked_package_version(package: str) -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    (version,) = [each["version"] for each in locked if each["name"] == package]
    [found] = re.findall(rf"^\| \[{package}\]\(\S+\) ([\d.]+)", ALTERNATIVES, re.MULTILINE)
    assert found == version, "Compare again, and change the version and the date of the table."


def test_comparison_table_in_readme_has_date_and_versions() -> None:
    [compared] = re.findall(r"As of (\d{4}-\d\d-\d\d)", ALTERNATIVES)
    assert date.fromisoformat(compared) >= date(2026, 11, 22)
    rows = re.findall(r"^\| (?!\||---)(.+?) \|", ALTERNATIVES, re.MULTILINE)
    assert len(rows) == 7
    assert f"aion-lambda {__version__}" in rows[0]
    assert [row for row in rows if not re.search(r"\d+\.\d+\.\d+", row)] == []
