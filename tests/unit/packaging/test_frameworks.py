"""Frameworks in a package: those imported by the code of its agents."""

from pathlib import Path

import pytest

from aion_core.packaging.imports import frameworks_of

ROOT = Path(__file__).parents[3]
CODE = {
    "ADK": ("from google.adk.agents import LlmAgent", {"adk"}),
    "ADK's short name": ("from google import adk", {"adk"}),
    "LangGraph": ("import langgraph.graph as graph", {"langgraph"}),
    "LangChain": ("from langchain.agents import create_agent", {"langgraph"}),
    "both": ("def make():\n    import langgraph\nfrom google.adk import Agent", {"adk", "langgraph"}),
    "names of ours": ("from aion.shared.types import A2AOutbox\nfrom aion.adk import get_aion_context", {"adk"}),
    "an executor": ("from a2a.server.agent_execution import AgentExecutor", set()),
    "an executor over ADK": ("from a2a.server.agent_execution import AgentExecutor\nimport google.adk", {"adk"}),
    "somebody else's": ("from google.cloud import storage\nfrom elsewhere import agent", {"adk", "langgraph"}),
    "what is no Python": ("def (", {"adk", "langgraph"}),
}


@pytest.mark.parametrize("case", CODE)
def test_import_shows_framework(case: str, tmp_path: Path) -> None:
    """Without a known import it may be any framework."""
    code, frameworks = CODE[case]
    (tmp_path / "agent.py").write_text(code)
    assert frameworks_of(tmp_path / "agent.py", [tmp_path]) == frameworks


@pytest.mark.parametrize(
    "statement",
    [
        "from . import sub",
        "from .sub import root",
        "from mine import sub",
        "import mine.sub",
        "from .sub.tree import root",
    ],
)
def test_imported_neighbour_shows_framework(statement: str, tmp_path: Path) -> None:
    """The file at `path` may only collect definitions of other files; a file without importers does not count."""
    package = tmp_path / "mine"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "agent.py").write_text(f"{statement}\nimport a2a.server")
    (package / "sub" / "__init__.py").write_text("from ..sub import tree")
    (package / "sub" / "tree.py").write_text("from google.adk.agents import BaseAgent\nfrom mine import agent")
    (package / "other.py").write_text("import langgraph")
    assert frameworks_of(package / "agent.py", [tmp_path]) == {"adk"}


def test_the_examples_tell(tmp_path: Path) -> None:
    assert frameworks_of(ROOT / "examples/adk/agent.py", [ROOT]) == {"adk"}
    assert frameworks_of(ROOT / "examples/echo/agent.py", [ROOT]) == {"langgraph"}
