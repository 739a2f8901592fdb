"""OpenTelemetry traces, sent with OTLP over HTTP. Aion imports this module only if an endpoint is configured.

The SDK reads its own variables: the endpoint (OTEL_EXPORTER_OTLP_ENDPOINT), sampling (OTEL_TRACES_SAMPLER) and the
resource (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME).
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

from aion_core.telemetry import SpanKind

EXPORT_SECONDS = 2.0
"""Timeout of an export of spans with its retries. A Lambda invocation waits for the export."""

_KINDS = {
    SpanKind.SERVER: trace.SpanKind.SERVER,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
}

PAUSE_SECONDS = 5.0
"""Time after a failed export in which spans are dropped, so that an unavailable collector delays an invocation once."""

_HAS_CONTENT = re.compile(
    r"exception\.(message|stacktrace)"
    # OpenTelemetry's conventions, ADK, and OpenLLMetry
    r"|gen_ai\.(prompt|completion|input\.messages|output\.messages|system_instructions|tool\.call\.(arguments|result)).*"
    r"|gen_ai\.(content|event\.content|task\.input|task\.output).*|content|url\.query"
    r"|gcp\.vertex\.agent\.(llm_request|llm_response|tool_call_args|tool_response|data)"
    r"|traceloop\.(entity\.(input|output)|prompt\..*|association\.properties\..*)"
    # OpenInference
    r"|(input|output)\.value|metadata|tool\.parameters"
    r"|llm\.(input_messages|output_messages|prompts|prompt_template|choices|function_call|invocation_parameters).*"
    r"|(retrieval|embedding|reranker|document|message|message_content|tool_call|image|audio)\..*"
)
"""Matches span attributes with content of messages, or with error texts. An error text may quote content."""

_CHOSEN = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
"""Attributes with content that aion's own spans have only if the agent's author has allowed it."""

_URLS = ("http.url", "http.target", "url.full")
"""Span attributes with a URL. Its query may have a credential or content."""


class OTelTraces:
    """Traces with the process's tracer provider: spans of frameworks become children of aion's spans."""

    def __init__(self, service: str) -> None:
        """Take the service name for the resource. A name in the environment variables has precedence."""
        self._provider = _provider(service)
        self._tracer = self._provider.get_tracer("aion")

    @contextmanager
    def span(
        self,
        name: str,
        kind: SpanKind,
        *,
        traceparent: str = "",
        tracestate: str = "",
        attributes: Mapping[str, str | int] | None = None,
    ) -> "Iterator[OTelSpan]":
        """Start a span for the `with` block and yield it: see `Traces.span`."""
        within, links = _parent(traceparent, tracestate)
        with self._tracer.start_as_current_span(
            name,
            within,
            kind=_KINDS[kind],
            attributes=attributes,
            links=links,
            # Do not record exceptions, because their text may quote content of messages.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            noted = OTelSpan(span)
            try:
                yield noted
            except BaseException as error:
                noted.failed(type(error).__name__)
                raise

    def flush(self) -> None:
        """See `Traces.flush`. The exporter has a time limit."""
        self._provider.force_flush()


class OTelSpan:
    """OpenTelemetry span with the methods of `Span`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, name: str, value: str | int) -> None:
        """Set an attribute of the span."""
        self._span.set_attribute(name, value)

    @property
    def traceparent(self) -> str:
        """Return the span's ids and its sampling decision in the form of W3C Trace Context."""
        headers: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(headers, trace.set_span_in_context(self._span))
        return headers.get("traceparent", "")

    def failed(self, why: str) -> None:
        """Mark the span as failed with this reason."""
        self._span.set_status(Status(StatusCode.ERROR, why))


class RedactingExporter(SpanExporter):
    """Span exporter that removes content of messages and error texts from spans before exporting them."""

    def __init__(self, exporter: SpanExporter, seconds: Callable[[], float] = time.monotonic) -> None:
        self._exporter, self._seconds, self._paused_until = exporter, seconds, 0.0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export redacted copies of the spans. Drop the spans if an export has just failed."""
        if self._seconds() < self._paused_until:
            return SpanExportResult.FAILURE
        result = self._exporter.export([_redacted(span) for span in spans])
        if result is SpanExportResult.FAILURE:
            self._paused_until = self._seconds() + PAUSE_SECONDS
        return result

    def shutdown(self) -> None:
        """Shut down the inner exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Export the buffered spans of the inner exporter."""
        return self._exporter.force_flush(timeout_millis)


def _redacted(span: ReadableSpan) -> ReadableSpan:
    ours = span.instrumentation_scope is not None and span.instrumentation_scope.name == "aion"
    return ReadableSpan(
        span.name,
        span.context,
        span.parent,
        span.resource,
        _without_content(span.attributes, kept=_CHOSEN if ours else ()),
        [Event(event.name, _without_content(event.attributes), event.timestamp) for event in span.events],
        span.links,
        span.kind,
        status=span.status if ours else Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _without_content(attributes: Attributes, kept: Collection[str] = ()) -> Attributes:
    return {
        name: str(value).partition("?")[0] if name in _URLS else value
        for name, value in (attributes or {}).items()
        if name in kept or not _HAS_CONTENT.fullmatch(name)
    }


def _parent(traceparent: str, tracestate: str) -> tuple[Context | None, list[Link]]:
    """Return the parent of a new span and the links to other spans. None as parent means the current span."""
    if not traceparent:
        return None, []
    around = trace.get_current_span().get_span_context()
    named = TraceContextTextMapPropagator().extract({"traceparent": traceparent, "tracestate": tracestate})
    if trace.get_current_span(named).get_span_context().trace_id in (around.trace_id, 0):
        return None, []
    return named, [Link(around)] if around.is_valid else []


def _provider(service: str) -> TracerProvider:
    """Return the process's tracer provider, and create one unless an agent's code or a Lambda layer has done so."""
    made = trace.get_tracer_provider()
    if isinstance(made, TracerProvider):
        return made
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: service}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(RedactingExporter(OTLPSpanExporter(timeout=EXPORT_SECONDS))))
    trace.set_tracer_provider(provider)
    return provider
