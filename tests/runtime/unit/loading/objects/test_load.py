"""Objects at `path` of aion.yaml, and an error message for each unusable path."""

import sys
from pathlib import Path
from typing import Any

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.loading.objects.load import load_object
from aion_core.settings import Settings

GRAPHS = """
from langgraph.graph import START, MessagesState, StateGraph
from langchain_core.messages import AIMessage

def built(says):
    return StateGraph(MessagesState).add_node(says, lambda state: {"messages": [AIMessage(says)]}).add_edge(START, says)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "neighbour_of_agents.py").write_text(GRAPHS + "theirs = built('theirs').compile()\n")
    return tmp_path


def write(folder: Path, source: str) -> None:
    """Write the agent's file and forget its module."""
    for module in [name for name in sys.modules if name.startswith("aion_agent_agent_")]:
        del sys.modules[module]
    (folder / "agent.py").write_text(GRAPHS + source)


def found(folder: Path, source: str, path: str = "agent.py") -> Any:
    write(folder, source)
    return load_object(path, folder).agent


def nodes(graph: Any) -> set[str]:
    return set(graph.nodes) - {"__start__"}


@pytest.mark.parametrize(
    "source",
    [
        "graph = built('mine').compile(interrupt_before=['mine'])",
        "builder = built('mine')\ngraph = builder.compile(interrupt_before=['mine'])",
        "graph = built('mine').compile(interrupt_before=['mine'])\napp = graph",
        "from neighbour_of_agents import theirs\ngraph = built('mine').compile(interrupt_before=['mine'])",
        "from neighbour_of_agents import theirs as sub\ngraph = built('mine').compile(interrupt_before=['mine'])",
    ],
    ids=["one", "its builder beside it", "two names", "another module's", "another module's, renamed"],
)
def test_path_without_object_name_finds_compiled_graph(folder: Path, source: str) -> None:
    graph = found(folder, source)
    assert nodes(graph) == {"mine"}
    assert graph.interrupt_before_nodes == ["mine"]


def test_reexported_agent_is_found(folder: Path) -> None:
    assert nodes(found(folder, "from neighbour_of_agents import theirs")) == {"theirs"}


def test_agent_class_is_instantiated_if_no_instance_exists(folder: Path) -> None:
    """A module has an agent class: it is instantiated, unless the module also has an instance."""
    source = """
class Mine(StateGraph):
    def __init__(self):
        super().__init__(MessagesState)
        self.add_node("mine", lambda state: {}).add_edge(START, "mine")
"""
    assert nodes(found(folder, source)) == {"mine"}
    assert nodes(found(folder, source + "graph = built('other').compile()")) == {"other"}


@pytest.mark.parametrize(
    ("source", "names", "hint"),
    [
        ("graph = built('a').compile()\nother = built('b').compile()", "graph, other", "graph"),
        ("sub = built('a').compile()\ngraph = built('b').compile()", "sub, graph", "graph"),
        ("sub = built('a').compile()\nmain = built('b')", "sub, main", "main"),
        ("agent = built('a').compile()\napp = built('b').compile()", "agent, app", "app"),
    ],
)
def test_file_with_several_agents_requires_object_name(folder: Path, source: str, names: str, hint: str) -> None:
    """The hint names the object that most likely contains the others."""
    with pytest.raises(ConfigurationError) as failed:
        found(folder, source)
    assert str(failed.value) == (
        f"agent.py holds several agents: {names} (agent.py, lines 7, 8). Name one, as in agent.py:{hint}."
    )
    assert nodes(found(folder, source, "agent.py:" + names.partition(",")[0])) == {"a"}


@pytest.mark.parametrize(
    "used",
    [
        "graph = StateGraph(MessagesState).add_node('whole', sub).add_edge(START, 'whole').compile()",
        "def call(state):\n    return sub.invoke(state)\n"
        "graph = StateGraph(MessagesState).add_node('whole', call).add_edge(START, 'whole').compile()",
        "inner = StateGraph(MessagesState).add_node('in', sub).add_edge(START, 'in').compile()\n"
        "graph = StateGraph(MessagesState).add_node('whole', inner).add_edge(START, 'whole').compile()",
    ],
    ids=["node", "called in a node", "node of a node"],
)
def test_agent_in_node_of_another_agent_does_not_count(folder: Path, used: str) -> None:
    assert nodes(found(folder, f"sub = built('a').compile()\n{used}")) == {"whole"}


# ── Configuration and checkpointer ────────────────────────────────────────────────────────────────────────────────────


def load(folder: Path, source: str, **configuration: Any) -> None:
    write(folder, source)
    load_agent(folder, AgentConfig(path="agent.py:graph", configuration=configuration))


def load_agent(folder: Path, config: AgentConfig) -> None:
    from aion_core.bootstrap.stores import build_stores
    from aion_core.clock import SystemClock

    stores = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock())
    LazyAgent("ada", config, folder, stores.agents).load()


SCHEMAS = {
    "dataclass": "@dataclass\nclass Ctx:\n    provider: str\n    depth: int = 3\n",
    "pydantic": "class Ctx(BaseModel):\n    provider: str\n    depth: int = 3\n",
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_error_names_required_field_missing_from_agent_configuration(folder: Path, kind: str) -> None:
    source = (
        "from dataclasses import dataclass\nfrom pydantic import BaseModel\n"
        + SCHEMAS[kind]
        + "graph = StateGraph(MessagesState, context_schema=Ctx).add_node('n', lambda s: s).add_edge(START, 'n')\n"
    )
    with pytest.raises(ConfigurationError) as failed:
        load(folder, source, depth=4)
    assert str(failed.value) == (
        "Agent 'ada': agent.py:graph: the graph's context schema Ctx requires provider (agent.py, line "
        f"{source.count(chr(10)) + GRAPHS.count(chr(10))}). Give it under `configuration` in aion.yaml."
    )
    load(folder, source, provider="openai")


def test_recursion_limit_of_adk_agent_is_refused(folder: Path) -> None:
    pytest.importorskip("google.adk")
    (folder / "other.py").write_text(
        "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='a', model='m')\n"
    )
    with pytest.raises(ConfigurationError) as failed:
        load_agent(folder, AgentConfig(path="other.py", recursion_limit=5))
    assert str(failed.value) == (
        "Agent 'ada': other.py is an ADK agent, and `recursion_limit` limits the steps of a LangGraph graph only. Remove "
        "the key in aion.yaml."
    )


def test_error_names_coroutine_in_place_of_agent(folder: Path) -> None:
    """The author calls the async function that makes the agent: nothing awaits it. Its name alone is enough."""
    made = "async def make():\n    return built('mine').compile()\n\n"
    with pytest.raises(ConfigurationError, match="graph is a coroutine, which nothing awaits") as raised:
        found(folder, f"{made}graph = make()")
    assert "without calling it" in str(raised.value)
    assert nodes(found(folder, f"{made}graph = make", "agent.py:graph")) == {"mine"}


def test_error_names_configuration_field_with_invalid_value(folder: Path) -> None:
    source = (
        "from pydantic import BaseModel\nclass Ctx(BaseModel):\n    depth: int = 3\n"
        "graph = StateGraph(MessagesState, context_schema=Ctx).add_node('n', lambda s: s).add_edge(START, 'n')\n"
    )
    with pytest.raises(ConfigurationError, match="does not fit the graph's context schema Ctx: depth: "):
        load(folder, source, depth="deep")


@pytest.mark.parametrize("method", ["raise NotImplementedError('use the async one')", None])
def test_graph_with_checkpointer_without_async_methods_is_refused(folder: Path, method: str | None) -> None:
    body = f"    async def aget_tuple(self, config):\n        {method}\n" if method else "    pass\n"
    source = (
        "from langgraph.checkpoint.base import BaseCheckpointSaver\n"
        f"class FileSaver(BaseCheckpointSaver):\n{body}"
        "graph = built('mine').compile(FileSaver())\n"
    )
    with pytest.raises(ConfigurationError, match="the graph's own checkpointer, FileSaver, has no async methods"):
        load(folder, source)
    load(folder, "from langgraph.checkpoint.memory import InMemorySaver\ngraph = built('a').compile(InMemorySaver())\n")
