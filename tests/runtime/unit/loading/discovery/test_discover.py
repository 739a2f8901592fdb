"""Discovery of agents without an aion.yaml: the order of the search, and the errors of an ambiguous folder."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.discovery.discover import discover
from aion_core.loading.discovery.discovered import Discovered
from aion_tools.agent_code.aion_yaml import as_yaml
from tests.support.isolated import isolated_imports
from tests.support.rows import each_row

GRAPH = (
    "from langgraph.graph import StateGraph\n"
    "graph = StateGraph(dict).add_node('n', print).add_edge('__start__', 'n').compile()\n"
)
ROOT_AGENT = "from google.adk.agents import Agent\nroot_agent = Agent(name='a')\n"
NEVER = "raise RuntimeError('this file was imported')\n"


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with isolated_imports(tmp_path):
        yield


def put(folder: Path, name: str, text: str = "") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def paths(found: Discovered) -> dict[str, str]:
    return {agent_id: agent.path for agent_id, agent in found.agents.items()}


def test_discovery_prefers_aion_yaml_to_other_agents(tmp_path: Path) -> None:
    put(tmp_path, "aion.yaml", "aion: {limits: {requests_per_minute: 5}, agents: {a: {path: a.py}}}")
    put(tmp_path, "langgraph.json", '{"graphs": {"b": "./b.py:graph"}}')
    put(tmp_path, "agent.py", ROOT_AGENT)
    put(tmp_path, ".env", "A=1")
    found = discover(tmp_path)
    assert paths(found) == {"a": "a.py"}
    assert found.found == "aion.yaml: agent a."
    assert found.config == tmp_path / "aion.yaml"
    assert found.env_files == (tmp_path / ".env",)
    assert found.limits is not None
    assert found.limits.requests_per_minute == 5


def test_langgraph_json_is_read_with_all_its_keys(tmp_path: Path) -> None:
    for folder in ("libs/one/src", "libs/two", "pkg"):
        (tmp_path / folder).mkdir(parents=True)
    put(tmp_path, "libs/two/pyproject.toml")
    put(tmp_path, "pkg/__init__.py")
    content = {
        "graphs": {
            "my agent!": "./src/agent/graph.py:graph",
            "my-agent": {"path": "pkg.module:make", "description": "Does it."},
            "plain": "other.py",
        },
        "dependencies": [".", "./libs/one", "./libs/two", "./pkg", "langchain_openai", "git+https://example.com/a.git"],
        "env": {"A": "x", "B": 2},
        "python_version": "3.12",
        "http": {"app": "./web.py:app"},
        "store": {},
    }
    put(tmp_path, "langgraph.json", json.dumps(content))
    found = discover(tmp_path)
    assert paths(found) == {
        "my-agent": "src/agent/graph.py:graph",
        "my-agent-2": "pkg.module:make",
        "plain": "other.py",
    }
    assert found.agents["my-agent-2"].description == "Does it."
    assert found.requirements == ("langchain_openai", "git+https://example.com/a.git")
    assert found.env == {"A": "x", "B": "2"}
    assert found.env_files == ()
    libs = tmp_path / "libs"
    assert found.roots == (libs / "one" / "src", libs / "one", libs, libs / "two")
    assert found.found == "langgraph.json: graphs my-agent, my-agent-2, plain. Not used: python_version, http, store."
    assert discover(tmp_path / "langgraph.json") == found


AUTH: dict[str, Any] = {"auth": {"path": "./auth.py:auth"}}
INDEX: dict[str, Any] = {"store": {"index": {"embed": "openai:x", "dims": 9}}}
NOTICES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "auth": (AUTH, ["Warning: `auth` of langgraph.json protects nothing here: "]),
    "an index": (INDEX, ["`store.index` of langgraph.json is not used: "]),
    "a store without an index": ({"store": {"ttl": {}}}, []),
    "a later Python": ({"python_version": "3.99"}, ["langgraph.json names Python 3.99, and this is Python 3."]),
    "a Python of now": ({"python_version": "3.11"}, []),
    "all": ({**AUTH, **INDEX}, ["Warning: `auth` ", "`store.index` "]),
}


@pytest.mark.parametrize("case", NOTICES)
def test_unused_langgraph_json_key_that_matters_has_notice(case: str, tmp_path: Path) -> None:
    content, expected = NOTICES[case]
    put(tmp_path, "langgraph.json", json.dumps({"graphs": {"a": "./a.py:graph"}, **content}))
    notices = discover(tmp_path).notices
    assert [notice.startswith(begin) for notice, begin in zip(notices, expected, strict=True)] == [True] * len(expected)


def test_langgraph_json_dependencies_are_importable(tmp_path: Path) -> None:
    put(tmp_path, "libs/one/src/shared_of_discovery.py", "VALUE = 7\n")
    put(tmp_path, "agent.py", f"from shared_of_discovery import VALUE\nassert VALUE == 7\n{GRAPH}")
    put(tmp_path, "langgraph.json", '{"graphs": {"a": "./agent.py:graph"}, "dependencies": ["./libs/one"]}')
    from aion_core.loading.objects.load import load_object

    declared = read_deployment_config(tmp_path / "langgraph.json")
    assert load_object("agent.py:graph", declared.folder, declared.roots).name == "graph"
    found = discover(tmp_path)
    file = put(tmp_path, "aion.yaml", as_yaml(found))
    assert list(read_deployment_config(file).roots) == list(declared.roots)


@pytest.mark.parametrize("code", ["from . import agent\n", "from .agent import root_agent\n"])
def test_adk_package_is_imported_by_its_name(code: str, tmp_path: Path) -> None:
    put(tmp_path, "weather/__init__.py", code)
    put(tmp_path, "weather/agent.py", ROOT_AGENT)
    env = put(tmp_path, ".env", "A=1")
    found = discover(tmp_path / "weather")
    assert (paths(found), found.folder, found.env_files) == ({"weather": "weather"}, tmp_path, (env,))
    nearer = put(tmp_path, "weather/.env", "A=2")
    assert discover(tmp_path / "weather").env_files == (nearer,)


def test_notice_names_adk_folder_that_is_no_package(tmp_path: Path) -> None:
    for name in ("weather", "travel-planner", ".venv"):
        put(tmp_path, f"{name}/agent.py", "root_agent = Agent()")
    put(tmp_path, "notes-of-may/agent.py", "text = 1")
    found = discover(tmp_path)
    assert list(found.agents) == ["weather"]
    assert found.notices == (
        "Not served: travel-planner. Rename it to use it: a package's name has letters, digits and underscores only.",
    )


def test_discovery_prefers_adk_app_to_root_agent(tmp_path: Path) -> None:
    put(
        tmp_path, "agent.py", f"{ROOT_AGENT}from google.adk.apps import App\napp = App(name='a', root_agent=root_agent)"
    )
    assert list(paths(discover(tmp_path)).values()) == ["agent.py:app"]


AGENTS = {
    "compiled": "from langgraph.graph import StateGraph\nbuilder = StateGraph(dict)\nx = builder.compile()",
    "not compiled": "from langgraph.graph import StateGraph\nx = StateGraph(dict).add_node('n', print).add_edge('a', 'b')",
    "prebuilt": "from langchain.agents import create_agent\nx = create_agent(None, tools=[])",
    "prebuilt, renamed": "from langchain.agents import create_agent as make\nx: object = make(None)",
    "entrypoint": "from langgraph.func import entrypoint\n@entrypoint()\ndef x(given): ...",
    "of a function": "import langgraph\ndef make(): ...\ngraph = make()",
    "in a try": "from google.adk.agents import LlmAgent\ntry:\n    x = LlmAgent(name='x')\nexcept ValueError:\n    pass",
    "own class": "from google.adk.agents import BaseAgent\nclass Own(BaseAgent): ...\nx = Own(name='x')",
    "executor's class": "from a2a.server.agent_execution import AgentExecutor\nclass X(AgentExecutor): ...",
    "deep agent": "from deepagents import create_deep_agent\nx = create_deep_agent()",
}
NO_AGENTS = {
    "an abstract executor": (
        "from abc import abstractmethod\nfrom a2a.server.agent_execution import AgentExecutor\n"
        "class X(AgentExecutor):\n    @abstractmethod\n    async def answer(self): ..."
    ),
    "a regular expression": "import langgraph, re\nx = re.compile('a')",
    "a web app": "import langgraph\nfrom fastapi import FastAPI\napp = FastAPI()",
    "a main program": "from langchain.agents import create_agent\nif __name__ == '__main__':\n    x = create_agent(None)",
    "within a function": "from langchain.agents import create_agent\ndef f():\n    x = create_agent(None)",
    "no framework": "def make(): ...\ngraph = make()",
    "no Python": "def (",
}


@each_row("kind", AGENTS)
def test_discovery_ignores_tests_and_files_without_agent(kind: str, tmp_path: Path) -> None:
    put(tmp_path, "mine.py", AGENTS[kind] + "\n" + NEVER)
    for number, code in enumerate(NO_AGENTS.values()):
        put(tmp_path, f"other{number}.py", code)
    put(tmp_path, "test_mine.py", GRAPH)
    put(tmp_path, "tests/helper.py", GRAPH)
    put(tmp_path, ".venv/lib.py", GRAPH)
    found = discover(tmp_path)
    assert paths(found) == {"mine": "mine.py"}
    assert found.found.startswith("mine.py: ")
    assert "mine" not in sys.modules


def test_discovery_searches_subfolders_only_without_agent_in_project_folder(tmp_path: Path) -> None:
    put(tmp_path, "src/support/graph.py", GRAPH)
    assert paths(discover(tmp_path)) == {"support": "src/support/graph.py"}
    put(tmp_path, "mine.py", GRAPH)
    assert paths(discover(tmp_path)) == {"mine": "mine.py"}


@pytest.mark.parametrize("statement", ["from sub import graph as sub", "import sub", "from .sub import graph as other"])
def test_agent_file_imported_by_another_is_not_discovered(statement: str, tmp_path: Path) -> None:
    put(tmp_path, "sub.py", GRAPH)
    put(tmp_path, "mine.py", f"{statement}\n{GRAPH}")
    assert paths(discover(tmp_path)) == {"mine": "mine.py"}


EXECUTOR = "from a2a.server.agent_execution import AgentExecutor\nclass Base(AgentExecutor):\n    def __init__(self, model): ...\n"
SERVER = """
from a2a.server.request_handlers import DefaultRequestHandler
from core.base import Base

def card(): ...

def build_app(port=8000):
    return Starlette(create_jsonrpc_routes(DefaultRequestHandler(Base("m"), None, card())))
"""


def test_executor_derived_from_own_base_class_is_discovered(tmp_path: Path) -> None:
    put(tmp_path, "core/base.py", EXECUTOR)
    put(tmp_path, "core/middle.py", "from core.base import Base as Common\nclass Middle(Common): ...")
    put(tmp_path, "mine.py", "from core import middle")
    put(tmp_path, "agents/mine.py", "from core.middle import Middle\nclass Part(Middle): ...\nclass Mine(Part): ...")
    found = discover(tmp_path)
    assert (list(paths(found).values()), found.found) == (["agents/mine.py"], "agents/mine.py: Mine.")


def test_function_that_makes_a_server_is_discovered(tmp_path: Path) -> None:
    put(tmp_path, "core/base.py", EXECUTOR)
    put(tmp_path, "core/server.py", SERVER)
    assert list(paths(discover(tmp_path)).values()) == ["core/server.py:build_app"]
    put(tmp_path, "core/server.py", SERVER + "class Own(Base): ...\nown = Own('m')")
    assert list(paths(discover(tmp_path)).values()) == ["core/server.py"]
    for no_factory in (SERVER.replace("port=8000", "port"), SERVER.replace("return", "app =")):
        put(tmp_path, "core/server.py", no_factory)
        assert list(paths(discover(tmp_path)).values()) == ["core/base.py"]
    put(tmp_path, "core/server.py", SERVER + SERVER.replace("build_app", "build_other"))
    with pytest.raises(ConfigurationError, match=r"core/server\.py:build_app, core/server\.py:build_other"):
        discover(tmp_path)


def test_discovery_error_lists_agents_to_choose_from(tmp_path: Path) -> None:
    put(tmp_path, "one.py", GRAPH)
    put(tmp_path, "two.py", GRAPH)
    with pytest.raises(ConfigurationError) as failed:
        discover(tmp_path)
    assert str(failed.value) == (
        f"{tmp_path} has several agents: one.py:graph, two.py:graph. "
        "Choose one, as in `aion dev one.py:graph`, or list them in an aion.yaml."
    )


def test_missing_agent_lists_searched_places(tmp_path: Path) -> None:
    for number, code in enumerate(NO_AGENTS.values()):
        put(tmp_path, f"other{number}.py", code)
    with pytest.raises(ConfigurationError) as failed:
        discover(tmp_path)
    assert str(failed.value) == (
        f"{tmp_path} has no agent. Looked for: aion.yaml, langgraph.json, an ADK agent folder (root_agent in agent.py or "
        "__init__.py, root_agent.yaml), and a Python file that defines a graph, an agent or an executor. "
        "Name a file, as in `aion dev agent.py:graph`, or begin with `aion new my-agent`."
    )


@pytest.mark.parametrize(
    ("path", "agent_id", "found_path"),
    [
        ("mine.py", "mine", "mine.py"),
        ("mine.py:make", "make", "mine.py:make"),
        ("./src/support/graph.py:graph", "support", "src/support/graph.py:graph"),
        ("support.graph:graph", "support", "support.graph:graph"),
        ("support.graph", "support", "support.graph"),
        ("weather:root_agent", "weather", "weather:root_agent"),
    ],
)
def test_discovery_of_given_path_finds_only_its_agent(
    path: str, agent_id: str, found_path: str, tmp_path: Path
) -> None:
    put(tmp_path, "mine.py", NEVER)
    put(tmp_path, "src/support/graph.py", NEVER)
    put(tmp_path, "weather/agent.py", NEVER)
    env = put(tmp_path, ".env", "A=1")
    found = discover(Path(path))
    assert paths(found) == {agent_id: found_path}
    assert (found.folder, found.env_files) == (tmp_path, (env,))


@pytest.mark.parametrize("path", ["nowhere", "nowhere.py", "nowhere/at/all", "notes.txt"])
def test_unknown_agent_path_is_named_in_error(path: str, tmp_path: Path) -> None:
    put(tmp_path, "notes.txt")
    with pytest.raises(ConfigurationError, match=path):
        discover(Path(path))


def test_generated_yaml_contains_only_discovered_agents(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    put(tmp_path, "libs/pyproject.toml")
    graphs = {"a": "./a.py:graph", "b": {"path": "./b.py:graph", "description": "Größer: ja"}}
    put(tmp_path, "langgraph.json", json.dumps({"graphs": graphs, "dependencies": ["./libs"]}))
    assert as_yaml(discover(tmp_path)) == (
        "aion:\n  python_path:\n  - libs\n  agents:\n    a:\n      path: a.py:graph\n"
        "    b:\n      path: b.py:graph\n      description: 'Größer: ja'\n"
    )


@pytest.mark.parametrize("name", ["", "langgraph.json", "mine.py", "mine.py:graph"])
def test_deployment_without_aion_yaml_is_read_from_folder_or_file(name: str, tmp_path: Path) -> None:
    put(tmp_path, "langgraph.json", '{"graphs": {"mine": "./mine.py:graph"}}')
    put(tmp_path, "mine.py", GRAPH)
    declared = read_deployment_config(tmp_path / name)
    assert (list(declared.agents), declared.folder) == (["mine"], tmp_path)
