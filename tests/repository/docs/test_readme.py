"""README: short, its agent is served as it stands, and the comparison names the locked package versions."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
from langgraph.pregel import Pregel

from aion_core import __version__
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.graph import tools_of
from aion_core.loading.objects.load import load_object
from tests.support.pages import Block, blocks
from tests.support.server import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
ALTERNATIVES = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").partition("\n## ")[0]


def commands(block: Block) -> list[str]:
    return [line.partition("  #")[0].strip() for line in block.code.splitlines() if not line.startswith("#")]


def test_readme_is_read_in_a_minute() -> None:
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 700


def test_commands_of_readme_are_those_of_the_other_pages() -> None:
    """`make test-deep` runs the quickstart, and so these commands; tests/tools/e2e/test_dev.py runs `make dev`."""
    known = {
        command
        for page in ("docs/quickstart.md", "docs/deploy.md")
        for block in blocks(page, "sh")
        for command in commands(block)
    }
    for block in blocks("README.md", "sh"):
        for command in commands(block):
            assert command in known or command.startswith("make ") or ".venv/bin/aion new" in command


def test_agent_of_readme_is_served_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [block] = blocks("README.md", "python")
    (tmp_path / "agent.py").write_text(block.code, encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    loaded = load_object("agent.py:graph", tmp_path)
    graph = loaded.agent
    assert isinstance(graph, Pregel)
    LangGraphAgent(graph)
    assert [name for name, _ in tools_of(graph)] == ["opening_hours"]


@pytest.mark.parametrize("package", ["a2a-sdk", "google-adk"])
def test_comparison_names_locked_package_version(package: str) -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    (version,) = [each["version"] for each in locked if each["name"] == package]
    [found] = re.findall(rf"^\| \[{package}\]\(\S+\) ([\d.]+)", ALTERNATIVES, re.MULTILINE)
    assert found == version, "Compare again, and change the version and the date of the table."


def test_comparison_has_date_and_versions() -> None:
    [compared] = re.findall(r"As of (\d{4}-\d\d-\d\d)", ALTERNATIVES)
    assert date.fromisoformat(compared) >= date(2026, 11, 30)
    rows = re.findall(r"^\| (?!\||---)(.+?) \|", ALTERNATIVES, re.MULTILINE)
    assert len(rows) == 8
    assert f"aion-lambda {__version__}" in rows[0]
    assert [row for row in rows if not re.search(r"\d+\.\d+\.\d+", row)] == []
