"""Runtime context in nodes and tools: aion's context, or an instance of the context schema of the graph."""

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel

from aion.langgraph import AionContext, get_aion_context
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.protocol.aion.extensions import DISTRIBUTION
from tests.runtime.golden.graphs import ScriptedModel, asks_for
from tests.support.rows import each_row
from tests.support.service import http, parts, send

State = dict[str, Any]


@dataclass
class AsDataclass:
    provider: str = "openai"
    tags: list[str] = field(default_factory=list)


class AsModel(BaseModel):
    provider: str = "openai"
    tags: list[str] = []


class AsTypedDict(TypedDict, total=False):
    provider: str
    tags: list[str]


async def answer_of(agent: Any, **request: Any) -> tuple[str, str]:
    """Return the task's state and answer."""
    async with http(parts(agent).app()) as client:
        sent = send(method="SendMessage")
        sent["params"] |= request
        task = (await client.post("/", json=sent)).json()["result"]["task"]
    return task["status"]["state"], task["status"]["message"]["parts"][0]["text"]


@each_row(
    ("schema", "configuration", "provider"),
    [
        (AsDataclass, {}, "openai"),
        (AsDataclass, {"provider": "mine"}, "mine"),
        (AsModel, {"provider": "mine"}, "mine"),
        (AsTypedDict, {}, "openai"),
    ],
)
async def test_context_schema_of_graph_receives_configuration_of_agent(
    schema: Any, configuration: dict[str, Any], provider: str
) -> None:
    def node(state: Any, runtime: Runtime[Any]) -> State:
        own = runtime.context
        own = own if isinstance(own, dict) else vars(own)
        own.setdefault("tags", []).append("seen")
        ours = get_aion_context().message
        assert ours is not None
        return {"messages": [AIMessage(f"{own.get('provider', 'openai')} {own['tags']} {ours.text}")]}

    graph = StateGraph(MessagesState, context_schema=schema).add_node("node", node).add_edge(START, "node")
    agent = LangGraphAgent(graph, configuration=configuration)
    for _ in range(2):
        assert await answer_of(agent) == ("TASK_STATE_COMPLETED", f"{provider} ['seen'] hi")


class ContextModel(ScriptedModel):
    def bind_tools(self, tools: Any, **_: Any) -> "ContextModel":
        return self


async def test_tool_reads_aion_context_from_tool_runtime_parameter() -> None:
    """Declare a tool parameter of type `ToolRuntime[AionContext]`: its context is that of the turn."""

    @tool
    async def ask(runtime: ToolRuntime[AionContext]) -> str:
        """Ask a question."""
        await runtime.context.thread.reply(f"from the tool of {runtime.context.self.name}")
        return "kept from the client"

    graph = create_agent(ContextModel(scripts=[[asks_for("ask", "{}")], ["done"]]), [ask], context_schema=AionContext)
    agent = LangGraphAgent(graph, name="Ada")
    assert await answer_of(agent) == ("TASK_STATE_COMPLETED", "from the tool of Ada")


PLAIN = """
import asyncio
import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from tests.runtime.golden.graphs import asks_for
from tests.support.service import http, parts, send
from tests.runtime.unit.agents.langgraph.test_runtime_context import ContextModel

@tool
def look(runtime: ToolRuntime) -> str:
    "Look."
    return "seen"

async def main():
    graph = create_agent(ContextModel(scripts=[[asks_for("look", "{}")], ["done"]]), [look])
    async with http(parts(graph).app()) as client:
        print((await client.post("/", json=send("secret words"))).text)

asyncio.run(main())
"""


@pytest.mark.deep
def test_tool_runtime_annotation_without_type_argument_causes_no_warning() -> None:
    ran = subprocess.run([sys.executable, "-W", "default", "-c", PLAIN], capture_output=True, text=True, check=True)
    assert "TASK_STATE_COMPLETED" in ran.stdout
    assert "AionContext" not in ran.stderr
    assert "Pydantic serializer" not in ran.stderr


async def test_node_receives_network_of_thread_and_unchanged_integers_of_metadata() -> None:
    class ContextWithInbox(MessagesState):
        a2a_inbox: Any

    def node(state: ContextWithInbox) -> State:
        thread = get_aion_context().thread
        return {"messages": [AIMessage(f"{thread.network} {state['a2a_inbox'].metadata['trace']}")]}

    graph = StateGraph(ContextWithInbox).add_node("node", node).add_edge(START, "node")
    metadata = {DISTRIBUTION: {"distribution": {"endpointType": "slack"}}, "trace": [1, 2.5, {"n": 3}]}
    answer = await answer_of(graph, metadata=metadata)
    assert answer == ("TASK_STATE_COMPLETED", "slack [1, 2.5, {'n': 3}]")


async def test_integers_in_data_answer_stay_integers() -> None:
    """Answer with an integer in data: the graph uses it as a list index, which a float cannot be."""
    from langgraph.types import interrupt

    def node(state: Any) -> State:
        answer = interrupt({"prompt": "Which?", "options": ["a", "b"]})
        return {"messages": [AIMessage(f"{['a', 'b'][answer['index']]} {answer['weights']}")]}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
        answer = send(message_id="m-2", taskId=task["id"], parts=[{"data": {"index": 1, "weights": [0.5, 2]}}])
        task = (await client.post("/", json=answer)).json()["result"]["task"]
    assert task["status"]["message"]["parts"][0]["text"] == "b [0.5, 2]"
