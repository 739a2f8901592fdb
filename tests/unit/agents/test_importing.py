"""Module names of agents' files: each file is one module, under the same name for every import and in each process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.agents.objects import load_object
from tests.support.server import ROOT
from tests.unit.agents.isolated import isolated_imports

GRAPH = """
from langgraph.graph import START, MessagesState, StateGraph
class State(MessagesState): ...
graph = StateGraph(State).add_node("n", lambda state: {}).add_edge(START, "n").compile()
"""


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path) -> Iterator[None]:
    with isolated_imports(tmp_path):
        yield


def put(folder: Path, name: str, text: str = "") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize("init", ["src/pkg_of_modules/__init__.py", "notes.txt"], ids=["package", "namespace"])
def test_all_notations_of_src_path_load_same_module(init: str, tmp_path: Path) -> None:
    put(tmp_path, init)
    put(tmp_path, "src/pkg_of_modules/state.py", "class State: ...\n")
    put(tmp_path, "src/pkg_of_modules/graph.py", f"from pkg_of_modules.state import State as Own\n{GRAPH}")
    paths = ["src/pkg_of_modules/graph.py:graph", "pkg_of_modules.graph:graph", "src.pkg_of_modules.graph:graph"]
    modules = {load_object(path, tmp_path).module for path in paths}
    assert [module.__name__ for module in modules if module is not None] == ["pkg_of_modules.graph"]


@pytest.mark.parametrize("first", ["mine_of_modules.py", "sub/mine_of_modules.py"])
def test_agent_file_imported_by_sibling_file_is_same_module(first: str, tmp_path: Path) -> None:
    put(tmp_path, first, GRAPH)
    folder = (tmp_path / first).parent
    put(folder, "beside_of_modules.py", f"from mine_of_modules import State as Theirs\n{GRAPH}")
    mine = load_object(f"{first}:graph", tmp_path).module
    beside = load_object(f"{Path(first).parent / 'beside_of_modules.py'}:graph", tmp_path).module
    assert mine is not None
    assert beside is not None
    assert beside.Theirs is mine.State
    assert mine.__spec__ is not None
    assert mine.__spec__.name == mine.__name__


def test_agent_file_first_imported_by_sibling_is_same_module(tmp_path: Path) -> None:
    put(tmp_path, "mine_of_modules.py", GRAPH)
    put(tmp_path, "beside_of_modules.py", f"from mine_of_modules import State as Theirs\n{GRAPH}")
    beside = load_object("beside_of_modules.py:graph", tmp_path).module
    mine = load_object("mine_of_modules.py:graph", tmp_path).module
    assert mine is not None
    assert beside is not None
    assert beside.Theirs is mine.State


def test_folders_may_contain_equally_named_agent_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        put(tmp_path, f"{folder}/agent.py", f"{GRAPH}NAME = {folder!r}\n")
    modules = [load_object(f"{folder}/agent.py:graph", tmp_path).module for folder in ("one", "two")]
    assert [module.NAME for module in modules if module is not None] == ["one", "two"]


def test_package_does_not_shadow_other_modules(tmp_path: Path) -> None:
    """A package's `types.py` must not replace Python's: it is `package.types`, and the folder is last on `sys.path`."""
    put(tmp_path, "pkg_of_modules/__init__.py")
    put(tmp_path, "pkg_of_modules/langgraph.py", "raise RuntimeError\n")
    put(tmp_path, "pkg_of_modules/agent.py", GRAPH)
    load_object("pkg_of_modules/agent.py:graph", tmp_path)
    assert sys.path.index(str(tmp_path)) < sys.path.index(str(tmp_path / "pkg_of_modules"))
    assert sys.path[-1] == str(tmp_path / "pkg_of_modules")


def test_agent_files_module_name_is_equal_in_every_process(tmp_path: Path) -> None:
    """Checkpoints name an author's class by its module, so another process must find the same name."""
    put(tmp_path, "agent.py", "graph = object()\n")
    program = (
        "import sys; from pathlib import Path; from aion_core.agents.objects import load_object; "
        "print(load_object('agent.py:graph', Path(sys.argv[1])).module.__name__)"
    )
    names = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(names) == 1
    assert names.pop().startswith("aion_agent_agent_")
