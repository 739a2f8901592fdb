"""Imports in an agent's code: the frameworks that they need, and imports that the agent's package lacks."""

from pathlib import Path

import pytest

from aion_tools.agent_code.imports import frameworks_of, imports, missing
from tests.support.rows import each_row

ROOT = Path(__file__).parents[4]
CODE = {
    "ADK": ("from google.adk.agents import LlmAgent", {"adk"}),
    "ADK's short name": ("from google import adk", {"adk"}),
    "LangGraph": ("import langgraph.graph as graph", {"langgraph"}),
    "LangChain": ("from langchain.agents import create_agent", {"langgraph"}),
    "both": ("def make():\n    import langgraph\nfrom google.adk import Agent", {"adk", "langgraph"}),
    "imports of aion": ("from aion.shared.types import A2AOutbox\nfrom aion.adk import get_aion_context", {"adk"}),
    "an executor": ("from a2a.server.agent_execution import AgentExecutor", set()),
    "an executor over ADK": ("from a2a.server.agent_execution import AgentExecutor\nimport google.adk", {"adk"}),
    "unknown imports": ("from google.cloud import storage\nfrom elsewhere import agent", {"adk", "langgraph"}),
    "invalid Python": ("def (", {"adk", "langgraph"}),
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with a module, a package, a namespace package and a shared library."""
    package = tmp_path / "package"
    for name in (
        "yaml/__init__.py",
        "google/adk/__init__.py",
        "six.py",
        "_cffi_backend.cpython-313-x86_64-linux-gnu.so",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    return package


@pytest.mark.parametrize(
    "statement",
    [
        "import json, os.path, tomllib",
        "import yaml.something, six, _cffi_backend",
        "from google import adk",
        "from google.adk.agents import Agent",
        "import neighbour",
        "from neighbour import thing",
        "from . import neighbour",
        "from .nobody import thing",
        "try:\n    import nobody\nexcept ImportError:\n    nobody = None",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nobody",
        "def late():\n    import only_late",
    ],
)
def test_importable_module_or_optional_import_is_not_reported_missing(
    statement: str, tmp_path: Path, package: Path
) -> None:
    (tmp_path / "agent.py").write_text(statement)
    (tmp_path / "neighbour.py").write_text("")
    (tmp_path / "only_late.py").write_text("import nobody")
    assert list(missing([tmp_path / "agent.py"], [tmp_path], [package])) == []


def test_standard_module_removed_in_target_python_is_reported_missing(tmp_path: Path, package: Path) -> None:
    """Python 3.13 has no `imp`, but an older Python that builds the package has it."""
    (tmp_path / "agent.py").write_text("import imp, json")
    found = missing([tmp_path / "agent.py"], [tmp_path], [package], ["json"])
    assert [each.name for each in found] == ["imp"]


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("import nobody", "nobody"),
        ("import nobody.below as one", "nobody.below"),
        ("from google.cloud import storage", "google.cloud.storage"),
        ("import neighbour", "nobody"),
        ("from .neighbour import thing", "nobody"),
    ],
)
def test_missing_import_is_reported_with_its_files(statement: str, name: str, tmp_path: Path, package: Path) -> None:
    (tmp_path / "agent.py").write_text(statement)
    (tmp_path / "neighbour.py").write_text("import nobody")
    found = list(missing([tmp_path / "agent.py"], [tmp_path], [package]))
    assert [each.name for each in found] == [name]
    assert found[0].file.name == ("neighbour.py" if "neighbour" in statement else "agent.py")


def test_circularly_importing_files_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import neighbour")
    (tmp_path / "neighbour.py").write_text("def late():\n    import agent\nimport agent")
    assert {each.name for each in imports(tmp_path / "agent.py", [tmp_path])} == {"neighbour", "agent"}


@each_row("case", CODE)
def test_imported_package_determines_agents_framework(case: str, tmp_path: Path) -> None:
    """Code without an import of a known framework may need any framework, so it gets all."""
    code, frameworks = CODE[case]
    (tmp_path / "agent.py").write_text(code)
    assert frameworks_of(tmp_path / "agent.py", [tmp_path]) == frameworks


@each_row(
    "statement",
    [
        "from . import sub",
        "from .sub import root",
        "from mine import sub",
        "import mine.sub",
        "from .sub.tree import root",
    ],
)
def test_framework_is_detected_in_file_that_agent_imports(statement: str, tmp_path: Path) -> None:
    """The file at `path` imports its agent from another file; files that no file imports are ignored."""
    package = tmp_path / "mine"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "agent.py").write_text(f"{statement}\nimport a2a.server")
    (package / "sub" / "__init__.py").write_text("from ..sub import tree")
    (package / "sub" / "tree.py").write_text("from google.adk.agents import BaseAgent\nfrom mine import agent")
    (package / "other.py").write_text("import langgraph")
    assert frameworks_of(package / "agent.py", [tmp_path]) == {"adk"}


def test_framework_of_each_example_is_detected(tmp_path: Path) -> None:
    assert frameworks_of(ROOT / "examples/adk/agent.py", [ROOT]) == {"adk"}
    assert frameworks_of(ROOT / "examples/echo/agent.py", [ROOT]) == {"langgraph"}
