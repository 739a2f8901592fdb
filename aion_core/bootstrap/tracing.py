"""Composition of the trace of turns."""

import os
from collections.abc import Mapping

from aion_core.bootstrap.stores import Stores
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.clock import Clock
from aion_core.settings import Settings
from aion_core.telemetry import NoopTraces
from aion_core.trace.recorder import ExportSpans
from aion_core.trace.store import TraceStore
from aion_core.trace.tracer import Tracer

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's variable by which an author allows content in spans."""


def build_tracer(
    settings: Settings, telemetry: Telemetry, stores: Stores, clock: Clock, environ: Mapping[str, str] = os.environ
) -> Tracer | None:
    """Return the tracer of this process; None if nobody stores or exports the steps of its turns.

    `environ` has the variables of the agents' code.
    """
    store = TraceStore(stores.resources.table, clock) if settings.trace else None
    spans, captures = None, captures_content(environ)
    if not isinstance(telemetry.traces, NoopTraces):
        spans = _step_spans(content=captures)
    if store is None and spans is None:
        return None
    return Tracer(clock, store, spans, content=store is not None or captures)


def captures_content(environ: Mapping[str, str]) -> bool:
    """Return True if the author allows arguments and results of tools in spans."""
    return environ.get(CAPTURE, "").strip().lower() in ("true", "span_only", "span_and_event")


def _step_spans(*, content: bool) -> ExportSpans:
    # Import late: a process that exports no spans has no OpenTelemetry.
    from aion_core.step_spans import StepSpans

    return StepSpans(content=content)
