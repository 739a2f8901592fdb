"""Classes that a checkpoint restores as objects: those of the state's annotations and of LangGraph tasks' modules."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph

from aion_core.agents.langgraph.stored_classes import stored_classes
from tests.support.isolated import isolated_imports

FILES = {
    "models.py": "import dataclasses\n@dataclasses.dataclass\nclass Plan:\n    title: str\n",
    "results.py": "from pydantic import BaseModel\nclass Result(BaseModel):\n    plan: str\n",
    "work.py": """from langgraph.func import task
import results
from models import Plan
@task
def plan(title: str):
    return Plan(title)
@task
def run() -> "list[results.Result]":
    return []
""",
    "module_of_tasks.py": "import work\nfrom langgraph.func import entrypoint\n@entrypoint()\ndef flow(given): ...\n",
    "names_of_tasks.py": "from work import plan, run\nfrom langgraph.func import entrypoint\n@entrypoint()\ndef flow(given): ...\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    with isolated_imports(tmp_path):
        sys.path.insert(0, str(tmp_path))
        yield tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["module_of_tasks", "names_of_tasks"])
def test_stored_classes_include_result_classes_of_imported_langgraph_tasks(name: str) -> None:
    """After an interrupt a LangGraph task does not run again: its result is restored from the checkpoint."""
    module = importlib.import_module(name)
    assert {"Plan", "Result"} <= {kind.__name__ for kind in stored_classes(module.flow, module)}


@pytest.mark.usefixtures("folder")
def test_stored_classes_of_graph_are_found_without_its_module() -> None:
    flow: Any = importlib.import_module("names_of_tasks").flow
    assert "Plan" in {kind.__name__ for kind in stored_classes(flow, None)}


class Point(NamedTuple):
    x: int


class LineState(TypedDict):
    points: list[Point]


def test_stored_classes_include_named_tuple_in_graph_state() -> None:
    graph: Any = StateGraph(LineState).add_node("node", lambda state: {}).add_edge(START, "node").compile()
    assert Point in stored_classes(graph, None)


def test_graph_without_nodes_has_no_stored_classes() -> None:
    @entrypoint()
    def flow(given: Any) -> None: ...

    flow.nodes.clear()
    assert stored_classes(flow, None) == frozenset()
