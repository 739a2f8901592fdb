"""Steps that a LangGraph agent's turn records."""

import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from aion_core.trace.content import CUT, LONGEST
from aion_core.trace.step import Kind, Step
from tests.runtime.golden.graphs import asks_for
from tests.runtime.unit.agents.langgraph.usual_agents import UsualModel, both, model, weather
from tests.support.service import http, parts, send
from tests.support.traces import KeptTraces, named, tree


@tool
def explode(city: str) -> str:
    """Fail."""
    raise ValueError(f"no weather in {city}")


@tool
def dump(city: str) -> str:
    """Return a megabyte."""
    return "x" * 1_000_000


async def traced(agent: Any, method: str = "SendMessage") -> list[Step]:
    """Send a message to the agent; return the recorded steps of its turn."""
    kept = KeptTraces()
    async with http(parts(agent, tracer=kept.tracer).app()) as client:
        assert (await client.post("/", json=send(method=method))).status_code == 200
    return list(await kept.steps())


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_trace_of_react_agent_has_nodes_models_and_tools(method: str) -> None:
    script = [asks_for("weather", '{"city": "Rome"}')]
    steps = await traced(create_agent(model(script, ["Sunny", "."]), [weather]), method)
    assert tree(steps) == [
        "agent test",
        "  node model",
        "    model UsualModel",
        "  node tools",
        "    tool weather",
        "  node model",
        "    model UsualModel",
    ]
    (call,) = named(steps, "weather")
    assert (json.loads(call.arguments), call.result) == ({"city": "Rome"}, "sunny in Rome; station key 4711")
    assert all(step.ms is not None and not step.error for step in steps)
    models = [step for step in steps if step.kind is Kind.MODEL]
    assert all(step.first_ms is not None and step.first_ms <= (step.ms or 0) for step in models)


USAGE: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


class StreamedModel(UsualModel):
    """Model that reports its name, its provider and its tokens."""

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "acme", "ls_model_name": "acme-1", "ls_model_type": "chat"}


class WholeModel(GenericFakeChatModel):
    """Model that reports the same without a stream."""

    disable_streaming: bool = True

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "acme", "ls_model_name": "acme-1", "ls_model_type": "chat"}


@pytest.mark.parametrize(
    ("counted", "streams"),
    [
        (lambda: StreamedModel(scripts=[[AIMessageChunk(content="Hi.", usage_metadata=USAGE)]]), True),
        (lambda: WholeModel(messages=iter([AIMessage("Hi.", usage_metadata=USAGE)])), False),
    ],
)
async def test_trace_of_model_call_has_its_tokens(counted: Callable[[], Any], streams: bool) -> None:
    (call,) = named(await traced(create_agent(counted(), [])), "acme-1")
    assert (call.input_tokens, call.output_tokens, call.provider) == (7, 3, "acme")
    assert (call.first_ms is not None) == streams


async def test_trace_separates_parallel_tool_calls() -> None:
    calls = both(("weather", '{"city": "Rome"}'), ("weather", '{"city": "Oslo"}'))
    found = named(await traced(create_agent(model([calls], ["Sunny."]), [weather])), "weather")
    assert [(json.loads(each.arguments)["city"], each.result.split(";")[0], each.call_id) for each in found] == [
        ("Rome", "sunny in Rome", "call-0"),
        ("Oslo", "sunny in Oslo", "call-1"),
    ]
    assert len({each.id for each in found}) == 2


async def test_trace_of_failed_tool_has_its_error() -> None:
    steps = await traced(create_agent(model([asks_for("explode", '{"city": "Rome"}')]), [explode]))
    (call,) = named(steps, "explode")
    assert (call.error, call.result) == ("ValueError", "no weather in Rome")
    assert [step.error for step in steps if step.name == "tools"] == ["ValueError"]
    assert (steps[0].error, steps[0].where) == ("ValueError", call.where), "the turn has failed"
    assert call.where.startswith("test_traced_callbacks.py:")


@tool
def decide(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Answer with a message in a Command, as deepagents' `task` does."""
    return Command(update={"messages": [ToolMessage(f"no {city}", tool_call_id=tool_call_id, status="error")]})


async def test_trace_of_command_has_its_message_as_result() -> None:
    steps = await traced(create_agent(model([asks_for("decide", '{"city": "Rome"}')], ["Done."]), [decide]))
    (call,) = named(steps, "decide")
    assert (call.result, call.error) == ("no Rome", "_OTHER")


async def test_trace_cuts_result_of_a_megabyte() -> None:
    steps = await traced(create_agent(model([asks_for("dump", '{"city": "Rome"}')], ["Done."]), [dump]))
    (call,) = named(steps, "dump")
    assert call.result == "x" * LONGEST + CUT


async def test_trace_nests_subgraph_and_agent_within_tool() -> None:
    """As deepagents: a tool invokes an agent of its own."""
    researcher = create_agent(
        model([asks_for("weather", '{"city": "Oslo"}')], ["Sunny."]), [weather], name="researcher"
    )

    @tool
    async def task(question: str) -> str:
        """Ask the researcher."""
        answer = await researcher.ainvoke({"messages": [HumanMessage(question)]})
        return str(answer["messages"][-1].text)

    chief = create_agent(model([asks_for("task", '{"question": "Weather?"}')], ["Sunny."]), [task], name="chief")

    def check(state: MessagesState) -> Any:
        return {"messages": [AIMessage("Checked.")]}

    graph = StateGraph(MessagesState).add_node("chief", chief).add_node("check", check)
    steps = await traced(graph.add_edge(START, "chief").add_edge("chief", "check"))
    assert tree(steps) == [
        "agent test",
        "  node chief",
        "    agent chief",
        "      node model",
        "        model UsualModel",
        "      node tools",
        "        tool task",
        "          agent researcher",
        "            node model",
        "              model UsualModel",
        "            node tools",
        "              tool weather",
        "            node model",
        "              model UsualModel",
        "      node model",
        "        model UsualModel",
        "  node check",
    ]
