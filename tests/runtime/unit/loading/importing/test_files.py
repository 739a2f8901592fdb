"""Module names of agents' files: each file is one module, under the same name for every import and in each process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.errors import AgentLoadError
from aion_core.loading.objects.load import load_object
from tests.support.isolated import isolated_imports
from tests.support.server import ROOT

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
def test_agent_path_with_or_without_src_loads_same_module(init: str, tmp_path: Path) -> None:
    put(tmp_path, init)
    put(tmp_path, "src/pkg_of_modules/state.py", "class State: ...\n")
    put(tmp_path, "src/pkg_of_modules/graph.py", f"from pkg_of_modules.state import State as Own\n{GRAPH}")
    paths = ["src/pkg_of_modules/graph.py:graph", "pkg_of_modules.graph:graph", "src.pkg_of_modules.graph:graph"]
    modules = {load_object(path, tmp_path).module for path in paths}
    assert [module.__name__ for module in modules if module is not None] == ["pkg_of_modules.graph"]


@pytest.mark.parametrize("first", ["mine_of_modules.py", "sub/mine_of_modules.py"])
def test_sibling_file_imports_already_loaded_agent_file_as_same_module(first: str, tmp_path: Path) -> None:
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


def test_package_without_identifier_imports_loaded_agent_file_as_same_module(tmp_path: Path) -> None:
    """ADK's layout: `__init__.py` imports the file with the agent. The folder's name is no name of a package."""
    put(tmp_path, "my-agent/__init__.py", f"from . import agent\n{GRAPH}")
    put(tmp_path, "my-agent/agent.py", GRAPH)
    mine = load_object("my-agent/agent.py:graph", tmp_path).module
    package = load_object("my-agent:graph", tmp_path).module
    assert package is not None
    assert package.agent is mine


def test_import_by_name_after_failed_load_gets_stable_name(tmp_path: Path) -> None:
    """Checkpoints name an author's class by its module, so a failed load must not change the module's name."""
    put(tmp_path, "mine_of_modules.py", "raise RuntimeError")
    put(tmp_path, "beside_of_modules.py", f"import mine_of_modules as theirs\n{GRAPH}")
    with pytest.raises(AgentLoadError):
        load_object("mine_of_modules.py:graph", tmp_path)
    put(tmp_path, "mine_of_modules.py", GRAPH)
    beside = load_object("beside_of_modules.py:graph", tmp_path).module
    mine = load_object("mine_of_modules.py:graph", tmp_path).module
    assert beside is not None
    assert mine is not None
    assert beside.theirs is mine
    assert mine.__name__.startswith("aion_agent_mine_of_modules_")


def test_agent_with_another_folders_module_is_refused(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        put(tmp_path, f"{folder}/tools_of_modules.py", f"NAME = {folder!r}\n")
        put(
            tmp_path,
            f"{folder}/helpers_{folder}.py",
            "def name():\n    from tools_of_modules import NAME\n    return NAME\n",
        )
        put(tmp_path, f"{folder}/agent.py", f"from helpers_{folder} import name\n{GRAPH}NAME = name()\n")
    assert vars(load_object("one/agent.py:graph", tmp_path).module)["NAME"] == "one"
    with pytest.raises(
        AgentLoadError, match=r"'tools_of_modules' of this process is one/tools_of_modules\.py"
    ) as error:
        load_object("two/agent.py:graph", tmp_path)
    assert error.value.where == str(tmp_path / "two/tools_of_modules.py")


@pytest.mark.parametrize("start", ["", "NAME = name()\n"], ids=["lazy", "eager"])
def test_agent_is_refused_if_earlier_agents_function_imports_other_module(start: str, tmp_path: Path) -> None:
    lazy = f"def name():\n    import tools_of_modules\n    return tools_of_modules.NAME\n{GRAPH}"
    for folder in ("one", "two"):
        put(tmp_path, f"{folder}/tools_of_modules.py", f"NAME = {folder!r}\n")
        put(tmp_path, f"{folder}/agent.py", lazy + (start if folder == "two" else ""))
    one = vars(load_object("one/agent.py:graph", tmp_path).module)
    with pytest.raises(AgentLoadError, match=r"'tools_of_modules' of this process is one/tools_of_modules\.py"):
        load_object("two/agent.py:graph", tmp_path)
    assert one["name"]() == "one"


def test_import_for_type_checking_reserves_no_module_name(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        put(tmp_path, f"{folder}/tools_of_modules.py", f"NAME = {folder!r}\n")
        typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tools_of_modules\n"
        put(tmp_path, f"{folder}/agent.py", typed + GRAPH)
        load_object(f"{folder}/agent.py:graph", tmp_path)


def test_equal_copies_of_module_are_permitted(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        put(tmp_path, f"{folder}/tools_of_modules.py", "NAME = 'both'\n")
        put(tmp_path, f"{folder}/agent.py", f"from tools_of_modules import NAME\n{GRAPH}")
    modules = [load_object(f"{folder}/agent.py:graph", tmp_path).module for folder in ("one", "two")]
    assert [module.NAME for module in modules if module is not None] == ["both", "both"]


@pytest.mark.parametrize("indent", ["", "def later():\n    "], ids=["eager", "lazy"])
def test_module_of_project_folder_precedes_packages_own(indent: str, tmp_path: Path) -> None:
    put(tmp_path, "tools_of_modules.py", "NAME = 'project'\n")
    for package in ("one_of_modules", "two_of_modules"):
        put(tmp_path, f"{package}/__init__.py")
        put(tmp_path, f"{package}/tools_of_modules.py", f"NAME = {package!r}\n")
        put(tmp_path, f"{package}/agent.py", f"{indent}from tools_of_modules import NAME\n{GRAPH}")
        assert vars(load_object(f"{package}/agent.py:graph", tmp_path).module).get("NAME", "project") == "project"


def test_second_package_of_a_name_is_explained(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        put(tmp_path, f"{folder}/pkg_of_modules/__init__.py")
        put(tmp_path, f"{folder}/pkg_of_modules/tools.py", "NAME = 1\n")
        put(tmp_path, f"{folder}/pkg_of_modules/agent.py", f"from .tools import NAME\n{GRAPH}")
    load_object("one/pkg_of_modules/agent.py:graph", tmp_path)
    with pytest.raises(AgentLoadError, match="another package has this name"):
        load_object("two/pkg_of_modules/agent.py:graph", tmp_path)


def test_package_does_not_shadow_other_modules(tmp_path: Path) -> None:
    """A package's `types.py` must not replace Python's: it is `package.types`, and the folder is last on `sys.path`."""
    put(tmp_path, "pkg_of_modules/__init__.py")
    put(tmp_path, "pkg_of_modules/langgraph.py", "raise RuntimeError\n")
    put(tmp_path, "pkg_of_modules/agent.py", GRAPH)
    load_object("pkg_of_modules/agent.py:graph", tmp_path)
    assert sys.path.index(str(tmp_path)) < sys.path.index(str(tmp_path / "pkg_of_modules"))
    assert sys.path[-1] == str(tmp_path / "pkg_of_modules")


def test_module_name_of_agent_file_is_equal_in_every_process(tmp_path: Path) -> None:
    """Checkpoints name an author's class by its module, so another process must find the same name."""
    put(tmp_path, "agent.py", "graph = object()\n")
    program = (
        "import sys; from pathlib import Path; from aion_core.loading.objects.load import load_object; "
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
