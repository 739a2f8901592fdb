"""Project layouts of LangGraph's templates and of ADK's quickstart, served unchanged with scripted models."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.bootstrap import build_app
from aion_core.loading.discovery.discover import discover
from aion_core.settings import Settings
from aion_tools.agent_code.aion_yaml import as_yaml
from tests.support.adk import stream
from tests.support.isolated import isolated_imports
from tests.support.service import http

Files = Mapping[str, str]

PYPROJECT = "[project]\nname = 'a-project'\nversion = '0.0.1'\n"
MODEL = """
import json
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class Scripted(BaseChatModel):
    answers: list

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        raise NotImplementedError("it streams")

    def _stream(self, messages, stop=None, run_manager=None, **_):
        answer = self.answers.pop(0)
        if isinstance(answer, dict):
            call = {**answer, "args": json.dumps(answer["args"]), "index": 0}
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[call]))
            return
        for word in answer.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(word if word.endswith(".") else word + " "))


def load_chat_model(*answers):
    return Scripted(answers=list(answers))
"""

REACT_AGENT: Files = {
    "langgraph.json": json.dumps(
        {
            "$schema": "https://langgra.ph/schema.json",
            "dependencies": ["."],
            "graphs": {"agent": "./src/react_agent/graph.py:graph"},
            "env": ".env",
            "image_distro": "wolfi",
        }
    ),
    "pyproject.toml": PYPROJECT,
    ".env": "TAVILY_API_KEY=x\n",
    "src/react_agent/__init__.py": "from react_agent.graph import graph\n\n__all__ = ['graph']\n",
    "src/react_agent/prompts.py": "SYSTEM_PROMPT = 'You help. The time is {time}.'\n",
    "src/react_agent/context.py": """
import os
from dataclasses import dataclass, field, fields
from . import prompts


@dataclass(kw_only=True)
class Context:
    system_prompt: str = field(default=prompts.SYSTEM_PROMPT)
    model: str = field(default="acme/large")

    def __post_init__(self):
        for each in fields(self):
            if each.init and getattr(self, each.name) == each.default:
                setattr(self, each.name, os.environ.get(each.name.upper(), each.default))
""",
    "src/react_agent/state.py": """
from __future__ import annotations
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated
from langchain_core.messages import AnyMessage
from langgraph.graph import add_messages
from langgraph.managed import IsLastStep


@dataclass
class InputState:
    messages: Annotated[Sequence[AnyMessage], add_messages] = field(default_factory=list)


@dataclass
class State(InputState):
    is_last_step: IsLastStep = field(default=False)
""",
    "src/react_agent/tools.py": """
from langgraph.runtime import get_runtime
from react_agent.context import Context


async def search(query: str) -> str:
    \"\"\"Search the web.\"\"\"
    assert isinstance(get_runtime(Context).context, Context)
    return f"found {query}"


TOOLS = [search]
""",
    "src/react_agent/utils.py": MODEL,
    "src/react_agent/graph.py": """
from datetime import UTC, datetime
from typing import Dict, List, Literal, cast
from langchain_core.messages import AIMessage
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from react_agent.context import Context
from react_agent.state import InputState, State
from react_agent.tools import TOOLS
from react_agent.utils import load_chat_model

CALL = {"name": "search", "args": {"query": "the weather"}, "id": "call-1"}
MODEL = load_chat_model(CALL, "It is sunny.")


async def call_model(state: State, runtime: Runtime[Context]) -> Dict[str, List[AIMessage]]:
    system = runtime.context.system_prompt.format(time=datetime.now(tz=UTC).isoformat())
    messages = [{"role": "system", "content": system}, *state.messages]
    return {"messages": [cast(AIMessage, await MODEL.bind_tools(TOOLS).ainvoke(messages))]}


builder = StateGraph(State, input_schema=InputState, context_schema=Context)
builder.add_node(call_model)
builder.add_node("tools", ToolNode(TOOLS))
builder.add_edge("__start__", "call_model")


def route_model_output(state: State) -> Literal["__end__", "tools"]:
    return "tools" if state.messages[-1].tool_calls else "__end__"


builder.add_conditional_edges("call_model", route_model_output)
builder.add_edge("tools", "call_model")
graph = builder.compile(name="ReAct Agent")
""",
}


DOCS_APP: Files = {
    "langgraph.json": (
        '{"dependencies": ["./my_agent"], "graphs": {"my agent": "./my_agent/agent.py:graph"}, "env": "./.env"}'
    ),
    "my_agent/__init__.py": "",
    "my_agent/requirements.txt": "langgraph\n",
    "my_agent/utils/__init__.py": "",
    "my_agent/utils/state.py": "from langgraph.graph import MessagesState\nclass AgentState(MessagesState): ...\n",
    "my_agent/utils/model.py": MODEL,
    "my_agent/utils/nodes.py": """
from my_agent.utils.model import load_chat_model


def call_model(state, config):
    return {"messages": [load_chat_model("It is sunny.").invoke(state["messages"])]}
""",
    "my_agent/agent.py": """
from langgraph.graph import END, START, StateGraph
from my_agent.utils.nodes import call_model
from my_agent.utils.state import AgentState

workflow = StateGraph(AgentState)
workflow.add_node("agent", call_model)
workflow.add_edge(START, "agent")
workflow.add_edge("agent", END)
graph = workflow.compile()
""",
}

RETRIEVAL: Files = {
    "langgraph.json": json.dumps(
        {
            "dependencies": ["."],
            "graphs": {
                "retrieval_graph": {"path": "./src/retrieval_graph/graph.py:graph", "description": "Answers."},
                "indexer": "./src/retrieval_graph/index_graph.py:graph",
            },
        }
    ),
    "src/retrieval_graph/__init__.py": "",
    "src/retrieval_graph/model.py": MODEL,
    "src/retrieval_graph/state.py": "from langgraph.graph import MessagesState\nclass State(MessagesState): ...\n",
    "src/retrieval_graph/index_graph.py": """
from langgraph.graph import StateGraph
from retrieval_graph.state import State

graph = StateGraph(State).add_node("index", lambda state: {}).add_edge("__start__", "index").compile()
""",
    "src/retrieval_graph/graph.py": """
from langgraph.graph import StateGraph
from retrieval_graph.index_graph import graph as indexer
from retrieval_graph.model import load_chat_model
from retrieval_graph.state import State


async def respond(state: State):
    return {"messages": [await load_chat_model("It is sunny.").ainvoke(state["messages"])]}


graph = StateGraph(State).add_node("index", indexer).add_node(respond).add_edge("__start__", "index")
graph = graph.add_edge("index", "respond").compile()
""",
}

ADK_AGENT = """
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        for word in ("It ", "is ", "sunny."):
            yield LlmResponse(content=types.ModelContent(word), partial=True)
        yield LlmResponse(content=types.ModelContent("It is sunny."))


def get_weather(city: str) -> dict:
    \"\"\"Return the weather.\"\"\"
    return {"status": "success", "report": f"It is sunny in {city}."}


root_agent = Agent(
    name="weather_time_agent",
    model=Scripted(model="scripted"),
    description="Answers questions about the weather.",
    instruction="You are a helpful agent.",
    tools=[get_weather],
)
"""
ADK_QUICKSTART: Files = {
    "multi_tool_agent/__init__.py": "from . import agent\n",
    "multi_tool_agent/agent.py": ADK_AGENT,
    "multi_tool_agent/.env": "GOOGLE_GENAI_USE_VERTEXAI=FALSE\nGOOGLE_API_KEY=x\n",
}

LAYOUTS = {
    "react-agent": (REACT_AGENT, "."),
    "react-agent without langgraph.json": (
        {name: text for name, text in REACT_AGENT.items() if name != "langgraph.json"},
        ".",
    ),
    "retrieval-agent": (RETRIEVAL, "."),
    "the application of LangGraph's docs": (DOCS_APP, "."),
    "langgraph.json itself": (REACT_AGENT, "langgraph.json"),
    "a file of a package": (REACT_AGENT, "src/react_agent/graph.py"),
    "ADK's quickstart": (ADK_QUICKSTART, "multi_tool_agent"),
    "ADK's quickstart, from the folder above": (ADK_QUICKSTART, "."),
    "ADK's agent without a package": ({"agent.py": ADK_AGENT}, "."),
}


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path) -> Iterator[None]:
    with isolated_imports(tmp_path):
        yield


def written(folder: Path, files: Files) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


async def streamed(config: Path) -> str:
    """Return the streamed text of the agent at the root."""
    app = build_app(Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(config)}))
    async with http(app) as client:
        frames = await stream(client)
    assert _state(frames[-1]) == "TASK_STATE_COMPLETED", frames[-1]
    updates = [frame["artifactUpdate"]["artifact"] for frame in frames if "artifactUpdate" in frame]
    texts = [part["text"] for artifact in updates for part in artifact["parts"]]
    assert len([text for text in texts if text]) > 1
    return "".join(texts)


def _state(frame: dict[str, Any]) -> str:
    return str(frame["statusUpdate"]["status"]["state"])


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_agent_of_each_project_layout_streams_its_answer(layout: str, tmp_path: Path) -> None:
    files, path = LAYOUTS[layout]
    written(tmp_path, files)
    assert await streamed(tmp_path / path) == "It is sunny."


@pytest.mark.parametrize("layout", LAYOUTS)
def test_aion_yaml_generated_by_discovery_names_same_agents(layout: str, tmp_path: Path) -> None:
    files, path = LAYOUTS[layout]
    written(tmp_path, files)
    found = discover(tmp_path / path)
    file = found.folder / "aion.yaml"
    file.write_text(as_yaml(found))
    again = discover(file)
    assert (again.agents, again.folder, again.roots) == (found.agents, found.folder, found.roots)


@pytest.mark.parametrize(
    "path",
    ["src/react_agent/graph.py:graph", "react_agent.graph:graph", "src.react_agent.graph:graph", "react_agent:graph"],
)
async def test_each_path_notation_serves_agent_in_src_layout(path: str, tmp_path: Path) -> None:
    written(tmp_path, {**REACT_AGENT, "aion.yaml": f"aion: {{agents: {{a: {{path: '{path}'}}}}}}\n"})
    assert await streamed(tmp_path / "aion.yaml") == "It is sunny."


@pytest.mark.parametrize("path", ["multi_tool_agent", "multi_tool_agent:root_agent", "multi_tool_agent/agent.py"])
async def test_each_path_notation_serves_adk_agent_folder(path: str, tmp_path: Path) -> None:
    written(tmp_path, {**ADK_QUICKSTART, "aion.yaml": f"aion: {{agents: {{a: {{path: '{path}'}}}}}}\n"})
    assert await streamed(tmp_path / "aion.yaml") == "It is sunny."


async def test_each_agent_of_adk_folder_is_served(tmp_path: Path) -> None:
    written(tmp_path, ADK_QUICKSTART)
    written(tmp_path, {name.replace("multi_tool", "other"): text for name, text in ADK_QUICKSTART.items()})
    app = build_app(Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(tmp_path)}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        for agent_id in ("multi_tool_agent", "other_agent"):
            card = await client.get(f"/agents/{agent_id}/.well-known/agent-card.json")
            assert card.json()["name"] == agent_id


async def test_root_agent_yaml_is_served(tmp_path: Path) -> None:
    code = """
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Speaks(BaseAgent):
    async def _run_async_impl(self, ctx):
        for word in ("It ", "is sunny."):
            yield Event(author=self.name, content=types.ModelContent(word), partial=True)
        yield Event(author=self.name, content=types.ModelContent("It is sunny."))
"""
    declared = "name: weather\nagent_class: weather_of_layouts.code.Speaks\ndescription: Speaks.\n"
    written(tmp_path, {"weather_of_layouts/root_agent.yaml": declared, "weather_of_layouts/code.py": code})
    assert await streamed(tmp_path / "weather_of_layouts") == "It is sunny."
