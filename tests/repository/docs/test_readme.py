"""README: its commands, its agent as it stands, and its recorded terminal."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from langgraph.pregel import Pregel
from pyte.screens import Char

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.graph import tools_of
from aion_core.loading.objects.load import load_object
from scripts.terminal import IMAGE
from scripts.terminal_svg import LAST_SECONDS, Frame, Line, svg_of
from tests.support.pages import Block, blocks
from tests.support.server import ROOT

SVG = "{http://www.w3.org/2000/svg}"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands(block: Block) -> list[str]:
    return [line.partition("  #")[0].strip() for line in block.code.splitlines() if not line.startswith("#")]


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


def test_recorded_terminal_shows_frames_once_and_worker_taking_over() -> None:
    """Draw a film of three frames; the committed film shows a killed worker's turn."""

    def line(text: str) -> Line:
        return tuple(Char(char) for char in f"{text:12}")

    frames: list[Frame] = [(at, ((line("$ a <b>"), line(text)),)) for at, text in ((0, ""), (1, "out"), (3, "out 2"))]
    drawn = svg_of(frames, ["one"], label="A & B")
    lines = ElementTree.fromstring(drawn).findall(f"{SVG}defs/{SVG}g")  # noqa: S314  # our own text
    assert ["".join(each.itertext()).rstrip() for each in lines] == ["$ a <b>", "out", "out 2"]
    assert f"film {3 + LAST_SECONDS:.2f}s step-end" in drawn
    text = "".join(ElementTree.parse(IMAGE).getroot().itertext())  # noqa: S314  # our own file
    assert "aion chat" in text
    assert "took over the turn (try 2)" in text
