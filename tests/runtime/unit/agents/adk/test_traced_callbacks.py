"""Steps that an ADK agent's turn records."""

import json
from typing import Any

import pytest
from google.adk.agents import ParallelAgent, SequentialAgent
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.genai import types as genai

from aion_core.trace.content import CUT, LONGEST
from aion_core.trace.step import Kind, Step
from tests.support.adk import call, content, llm_agent, served
from tests.support.service import http, parts, send
from tests.support.traces import KeptTraces, named, tree


async def traced(agent: Any, method: str = "SendMessage") -> list[Step]:
    """Send a message to the agent; return the recorded steps of its turn."""
    kept = KeptTraces()
    async with http(parts(served(agent), tracer=kept.tracer).app()) as client:
        assert (await client.post("/", json=send(method=method))).status_code == 200
    return list(await kept.steps())


def weather(city: str) -> dict[str, str]:
    """Return the weather."""
    return {"weather": f"sunny in {city}"}


def explode(city: str) -> str:
    """Fail."""
    raise ValueError(f"no weather in {city}")


def dump(city: str) -> str:
    """Return a megabyte."""
    return "x" * 1_000_000


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_trace_of_agent_that_transfers_to_sub_agent(method: str) -> None:
    expert = llm_agent([call("weather", city="Rome")], ["Sunny", "."], name="expert", tools=[weather])
    root = llm_agent([call("transfer_to_agent", agent_name="expert")], sub_agents=[expert])
    steps = await traced(root, method)
    assert tree(steps) == [
        "agent test",
        "  agent root",
        "    model scripted",
        "    tool transfer_to_agent",
        "  agent expert",
        "    model scripted",
        "    tool weather",
        "    model scripted",
    ]
    (tool,) = named(steps, "weather")
    assert (json.loads(tool.arguments), json.loads(tool.result)) == ({"city": "Rome"}, {"weather": "sunny in Rome"})
    assert all(step.ms is not None and not step.error for step in steps)
    assert [step.first_ms is not None for step in steps if step.kind is Kind.MODEL] == [False, False, True]


async def test_trace_nests_agents_of_workflows() -> None:
    both = ParallelAgent(
        name="both", sub_agents=[llm_agent(["Left."], name="left"), llm_agent(["Right."], name="right")]
    )
    steps = await traced(SequentialAgent(name="root", sub_agents=[both, llm_agent(["Done."], name="last")]))
    lines = tree(steps)
    assert (lines[:3], lines[-2:]) == (
        ["agent test", "  agent root", "    agent both"],
        ["    agent last", "      model scripted"],
    )
    assert sorted(lines[3:7:2]) == ["      agent left", "      agent right"]
    assert set(lines[4:7:2]) == {"        model scripted"}


async def test_trace_nests_agent_within_tool() -> None:
    expert = llm_agent(["Sunny."], name="expert")
    root = llm_agent([call("expert", request="Weather?")], ["Done."], tools=[AgentTool(expert)])
    assert tree(await traced(root)) == [
        "agent test",
        "  agent root",
        "    model scripted",
        "    tool expert",
        "      agent expert",
        "        model scripted",
        "    model scripted",
    ]


async def test_trace_of_model_call_has_its_tokens() -> None:
    used = genai.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=3)
    answer = LlmResponse(content=content(genai.Part(text="Hi.")), usage_metadata=used)
    (model,) = [step for step in await traced(llm_agent([answer])) if step.kind is Kind.MODEL]
    assert (model.input_tokens, model.output_tokens) == (7, 3)


async def test_trace_separates_parallel_tool_calls() -> None:
    script = [call("weather", "c-1", city="Rome"), call("weather", "c-2", city="Oslo")]
    found = named(await traced(llm_agent(script, ["Sunny."], tools=[weather])), "weather")
    assert [(step.call_id, json.loads(step.result)["weather"]) for step in found] == [
        ("c-1", "sunny in Rome"),
        ("c-2", "sunny in Oslo"),
    ]


async def test_trace_of_failed_tool_has_its_error() -> None:
    (tool,) = named(await traced(llm_agent([call("explode", city="Rome")], tools=[explode])), "explode")
    assert (tool.error, tool.result) == ("ValueError", "no weather in Rome")


async def test_trace_of_failed_model_call_has_its_error() -> None:
    (model,) = named(await traced(llm_agent([RuntimeError("the model is out")])), "scripted")
    assert (model.error, model.result) == ("RuntimeError", "the model is out")


async def test_trace_cuts_result_of_a_megabyte() -> None:
    (tool,) = named(await traced(llm_agent([call("dump", city="Rome")], ["Done."], tools=[dump])), "dump")
    assert tool.result == "x" * LONGEST + CUT
