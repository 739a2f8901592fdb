"""Tests of the exported spans: removed content, and a collector that is unavailable."""

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.types import AttributeValue
from starlette.responses import Response

from aion_core.otel import PAUSE_SECONDS, OTelTraces, RedactingExporter
from aion_core.telemetry import NullMetrics
from aion_core.web.middleware.observability import ObservabilityMiddleware
from tests.support.collector import exported_from_here
from tests.support.rows import each_row
from tests.support.service import http


class SpanCollector(SpanExporter):
    """Collector that stores the attributes of spans, or fails."""

    def __init__(self) -> None:
        self.attributes: list[dict[str, AttributeValue]] = []
        self.result = SpanExportResult.SUCCESS

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.attributes += [dict(span.attributes or {}) for span in spans]
        return self.result


@each_row(
    "name",
    [
        "gen_ai.input.messages",
        "gen_ai.prompt.0.content",
        "gen_ai.task.input",
        "input.value",
        "output.value",
        "llm.input_messages.0.message.content",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments",
        "llm.invocation_parameters",
        "llm.prompt_template.variables",
        "tool.parameters",
        "metadata",
        "retrieval.documents.0.document.content",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "traceloop.association.properties.note",
        "url.query",
    ],
)
def test_exported_span_has_no_attribute_with_message_content(name: str) -> None:
    collector = SpanCollector()
    RedactingExporter(collector).export([ReadableSpan("call", attributes={name: "Hello", "llm.model_name": "m"})])
    assert collector.attributes == [{"llm.model_name": "m"}]


@pytest.mark.parametrize("name", ["http.url", "http.target", "url.full"])
def test_exported_url_has_no_query(name: str) -> None:
    collector = SpanCollector()
    RedactingExporter(collector).export([ReadableSpan("GET", attributes={name: "https://api.example.com/v1?key=K"})])
    assert collector.attributes == [{name: "https://api.example.com/v1"}]


def test_failed_export_of_spans_pauses_later_exports() -> None:
    collector, now = SpanCollector(), [0.0]
    exporter = RedactingExporter(collector, lambda: now[0])
    collector.result = SpanExportResult.FAILURE
    results = [exporter.export([ReadableSpan("first")]), exporter.export([ReadableSpan("second")])]
    assert results == [SpanExportResult.FAILURE] * 2
    assert len(collector.attributes) == 1
    collector.result, now[0] = SpanExportResult.SUCCESS, PAUSE_SECONDS
    assert exporter.export([ReadableSpan("third")]) is SpanExportResult.SUCCESS


async def test_request_span_keeps_tracestate_header_of_client(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "one=1,two=2"}
    with exported_from_here(monkeypatch) as collector:
        async with http(ObservabilityMiddleware(Response(), NullMetrics(), OTelTraces("a-stack"))) as client:
            await client.get("/", headers=headers)
    assert collector.named("request").trace_state == "one=1,two=2"
