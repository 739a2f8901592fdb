"""Steps of turns as exported spans: names of the conventions, and content only if the author allows it."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from aion_core.bootstrap import build_telemetry
from aion_core.bootstrap.stores import build_stores
from aion_core.bootstrap.tracing import CAPTURE, build_tracer
from aion_core.clock import SystemClock
from aion_core.otel import OTelTraces
from aion_core.settings import Settings
from aion_core.step_spans import StepSpans
from aion_core.table.keys import TaskKey
from aion_core.trace.step import Kind, Step, TracedTurn
from tests.runtime.golden.graphs import asks_for
from tests.runtime.unit.agents.langgraph.test_traced_callbacks import USAGE, StreamedModel, explode
from tests.runtime.unit.agents.langgraph.usual_agents import weather
from tests.support.adk import call, llm_agent, served
from tests.support.collector import Collector, attributes, exported_from_here
from tests.support.service import http, parts, send

KEY = "sk-" + "a1B2" * 12


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with exported_from_here(monkeypatch) as collector:
        yield collector


async def exported(agent: Any, collector: Collector, **environ: str) -> dict[str, Span]:
    """Send a message to the agent; return the exported spans by name."""
    settings = Settings.from_environ({"AION_STORE": "memory", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint})
    telemetry, clock = build_telemetry(settings), SystemClock()
    tracer = build_tracer(settings, telemetry, build_stores(settings, clock), clock, environ)
    async with http(parts(agent, tracer=tracer, traces=telemetry.traces).app()) as client:
        assert (await client.post("/", json=send())).status_code == 200
    await asyncio.to_thread(telemetry.traces.flush)
    return {span.name: span for span in collector.spans}


def react() -> Any:
    model = StreamedModel(
        scripts=[
            [asks_for("weather", f'{{"city": "Rome {KEY}"}}')],
            [AIMessageChunk(content="Sunny.", usage_metadata=USAGE)],
        ]
    )
    return create_agent(model, [weather])


def above(span: Span, spans: Mapping[str, Span]) -> list[str]:
    """Return the names of the spans around this one, the nearest first."""
    by_id = {each.span_id: each for each in spans.values()}
    names = []
    while (parent := by_id.get(span.parent_span_id)) is not None:
        names.append(parent.name)
        span = parent
    return names


async def test_spans_of_react_agent_have_names_of_conventions(collector: Collector) -> None:
    spans = await exported(react(), collector)
    assert {*spans} == {
        "turn",
        "invoke_agent test",
        "node model",
        "chat acme-1",
        "node tools",
        "execute_tool weather",
    }
    chat, tool, agent = spans["chat acme-1"], spans["execute_tool weather"], spans["invoke_agent test"]
    assert (above(chat, spans), above(tool, spans)) == (
        ["node model", "invoke_agent test", "turn"],
        ["node tools", "invoke_agent test", "turn"],
    )
    assert (chat.kind, tool.kind) == (Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_INTERNAL)
    said = attributes(chat)
    assert said.pop("gen_ai.response.time_to_first_chunk", None) is not None
    assert said.pop("gen_ai.request.stream", None) is not None
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "acme-1",
        "gen_ai.provider.name": "acme",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    }
    assert attributes(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call-1",
    }
    assert attributes(agent).keys() == {"gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id"}
    assert spans["turn"].start_time_unix_nano <= tool.start_time_unix_nano < tool.end_time_unix_nano
    assert "Rome" not in collector.text
    assert "sunny in" not in collector.text


@pytest.mark.parametrize(
    ("value", "allowed"), [("span_only", True), ("TRUE", True), ("no_content", False), ("", False)]
)
async def test_spans_have_content_if_author_allows_it(collector: Collector, value: str, allowed: bool) -> None:
    spans = await exported(react(), collector, **{CAPTURE: value})
    said = attributes(spans["execute_tool weather"])
    assert said.get("gen_ai.tool.call.arguments") == ('{"city": "Rome [redacted]"}' if allowed else None)
    assert ("gen_ai.tool.call.result" in said) == allowed
    assert KEY[:20] not in collector.text


async def test_span_of_failed_tool_has_class_of_its_error_only(collector: Collector) -> None:
    agent = create_agent(StreamedModel(scripts=[[asks_for("explode", '{"city": "Rome"}')]]), [explode])
    spans = await exported(agent, collector)
    tool = spans["execute_tool explode"]
    assert (attributes(tool)["error.type"], tool.status.message) == ("ValueError", "ValueError")
    assert attributes(spans["invoke_agent test"])["error.type"] == "ValueError"
    assert "no weather in" not in collector.text


async def test_adks_own_spans_are_exported_once(collector: Collector) -> None:
    def forecast(city: str) -> str:
        """Return the weather."""
        return f"sunny in {city}"

    expert = llm_agent([call("forecast", city="Rome")], ["Sunny."], name="expert", tools=[forecast])
    root = llm_agent([call("transfer_to_agent", agent_name="expert")], sub_agents=[expert])
    spans = await exported(served(root), collector)
    assert {"invoke_agent root", "invoke_agent expert", "execute_tool forecast"} <= {*spans}
    assert "invoke_agent test" not in spans
    assert all("turn" in above(spans[name], spans) for name in ("invoke_agent expert", "execute_tool forecast"))
    assert [span.name for span in collector.spans].count("execute_tool forecast") == 1
    assert attributes(spans["execute_tool forecast"])["gen_ai.tool.name"] == "forecast"
    models = [span for span in collector.spans if "gen_ai.request.model" in attributes(span)]
    assert len(models) >= 3
    assert "sunny in" not in collector.text


def test_takeover_is_event_of_turns_span(collector: Collector) -> None:
    traces = OTelTraces("a-stack")
    turn = TracedTurn(TaskKey("o", "t"), "c", "weather", "turn-1", 4)
    StepSpans(content=False)(turn, [Step(1, Kind.AGENT, "weather", 1.0), Step(2, Kind.TAKEOVER, "try 2", 2.0, 1, 0.0)])
    traces.flush()
    (event,) = collector.named("invoke_agent weather").events
    assert (event.name, event.attributes[0].value.string_value) == ("takeover", "try 2")


def test_process_without_store_and_exporter_has_no_tracer() -> None:
    settings, clock = Settings.from_environ({"AION_STORE": "memory"}), SystemClock()
    assert build_tracer(settings, build_telemetry(settings), build_stores(settings, clock), clock) is None
