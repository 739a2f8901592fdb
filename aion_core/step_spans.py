"""Steps of a turn as OpenTelemetry's spans, by its semantic conventions for generative AI.

The names are those of https://github.com/open-telemetry/semantic-conventions-genai (status: development). Aion imports
this module only if spans are exported.
"""

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from aion_core.trace.step import Kind, Step, TracedTurn

Attributes = dict[str, str | int | float | bool]

_PROVIDERS = {
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "ibm": "ibm.watsonx.ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers, by LangChain's. The others have the same name in both."""

_EVENTS = (Kind.RETRY, Kind.HANDOFF, Kind.TAKEOVER)


class StepSpans:
    """Export of the steps of ended turns as spans, children of the current one."""

    def __init__(self, *, content: bool) -> None:
        """With `content`, the spans of tools have their arguments and results."""
        self._content, self._tracer = content, trace.get_tracer_provider().get_tracer("aion")

    def __call__(self, turn: TracedTurn, steps: Sequence[Step]) -> None:
        """Make a span for each step; a retry, a handoff or a takeover is an event of the span around it."""
        spans: dict[int, Span] = {}
        for step in steps:
            around = spans.get(step.parent)
            if step.kind in _EVENTS:
                if around is not None:
                    around.add_event(step.kind.value, {"aion.cause": step.name}, _nanoseconds(step.at))
                continue
            name, kind, attributes = self._described(step, turn)
            spans[step.id] = self._tracer.start_span(
                name,
                trace.set_span_in_context(around) if around is not None else None,
                kind=kind,
                attributes=attributes,
                start_time=_nanoseconds(step.at),
            )
            if step.error:
                spans[step.id].set_status(Status(StatusCode.ERROR, step.error))
        for step in steps:
            if step.id in spans:
                spans[step.id].end(_nanoseconds(step.at + step.ms) if step.ms is not None else None)

    def _described(self, step: Step, turn: TracedTurn) -> tuple[str, SpanKind, Attributes]:
        """Return the name, the kind and the attributes of a step's span."""
        error: Attributes = {"error.type": step.error} if step.error else {}
        match step.kind:
            case Kind.MODEL:
                return f"chat {step.name}", SpanKind.CLIENT, {**_model(step), **error}
            case Kind.TOOL:
                return f"execute_tool {step.name}", SpanKind.INTERNAL, {**self._tool(step), **error}
            case Kind.AGENT:
                agent: Attributes = {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": step.name,
                    "gen_ai.conversation.id": turn.context_id,
                }
                return f"invoke_agent {step.name}", SpanKind.INTERNAL, {**agent, **error}
        return f"node {step.name}", SpanKind.INTERNAL, {"aion.node": step.name, **error}

    def _tool(self, step: Step) -> Attributes:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step.name,
            "gen_ai.tool.type": "function",
        }
        if step.call_id:
            attributes["gen_ai.tool.call.id"] = step.call_id
        if self._content:
            attributes |= {"gen_ai.tool.call.arguments": step.arguments, "gen_ai.tool.call.result": step.result}
        return attributes


def _model(step: Step) -> Attributes:
    attributes: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": step.name}
    if step.provider:
        attributes["gen_ai.provider.name"] = _PROVIDERS.get(step.provider, step.provider)
    if step.input_tokens is not None:
        attributes["gen_ai.usage.input_tokens"] = step.input_tokens
    if step.output_tokens is not None:
        attributes["gen_ai.usage.output_tokens"] = step.output_tokens
    if step.first_ms is not None:
        attributes |= {"gen_ai.request.stream": True, "gen_ai.response.time_to_first_chunk": step.first_ms / 1000}
    return attributes


def _nanoseconds(milliseconds: float) -> int:
    return int(milliseconds * 1_000_000)
