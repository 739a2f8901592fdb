"""Log records, traces and metrics of each request."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core import log
from aion_core.telemetry import Metric, Metrics, NoopTraces, SpanKind, Traces

_CONFIDENTIAL = re.compile(
    r"auth|token|secret|api-?key|^key$|(?<!idempotency)[_-]key$|cookie|credential|password|signature|session",
    re.IGNORECASE,
)
"""Matches the names of headers with confidential values. The verifiers know the configured headers of API keys."""


class ObservabilityMiddleware:
    """ASGI middleware. Adds a request id to log records, traces requests, counts internal errors and flushes metrics.

    On Lambda the request id is the id of the invocation. Metrics and traces are flushed after the request's background
    turns. Logs and traces contain no credentials of the request.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, traces: Traces, flush: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`flush` is called after each request, and at the end. Without it, the metrics are flushed."""
        self._app, self._metrics, self._traces, self._flush = app, metrics, traces, flush
        self._is_traced = not isinstance(traces, NoopTraces)
        self._is_cold = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then flush metrics and traces."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            # At shutdown, flush the metrics of requests that have not ended: they would be lost with the process.
            await self._send_all()
            return
        invocation = getattr(scope.get("aws.context"), "aws_request_id", "")
        secrets, count = _secrets(scope["headers"]), partial(self._metrics.count, Metric.INTERNAL_ERRORS)
        with log.request(invocation or str(uuid4()), secrets, count, **self._invoked(invocation)):
            try:
                await (self._trace if self._is_traced else self._app)(scope, receive, send)
            except Exception:
                log.count_internal_error()
                raise
            finally:
                await self._send_all()

    async def _send_all(self) -> None:
        if self._flush is not None:
            await self._flush()
        else:
            self._metrics.flush()

    def _invoked(self, invocation: str) -> dict[str, str | bool]:
        if not invocation:
            return {}
        cold_start, self._is_cold = self._is_cold, False
        return {"function_request_id": invocation, "cold_start": cold_start}

    async def _trace(self, scope: Scope, receive: Receive, send: Send) -> None:
        traceparent = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1").strip()
        tracestate = ",".join(Headers(scope=scope).getlist("tracestate"))
        # Omit path and query from the span, because the client controls their content.
        attributes: dict[str, str | int] = {"http.request.method": scope["method"]}
        with self._traces.span(
            "request",
            SpanKind.SERVER,
            traceparent=traceparent,
            tracestate=tracestate,
            attributes=attributes,
        ) as span:
            if traceparent[3:35] != span.traceparent[3:35]:
                # The request begins a trace of its own. Put it into the headers, because a turn in another function
                # continues the trace of its message.
                traceparent, tracestate = span.traceparent, ""
                scope["headers"] = [(b"traceparent", traceparent.encode()), *scope["headers"]]

            async def send_traced(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.note("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.failed(f"HTTP {message['status']}")
                await send(message)

            with log.about(traceparent=traceparent, tracestate=tracestate):
                await self._app(scope, receive, send_traced)


def _secrets(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    for name, raw in headers:
        if _CONFIDENTIAL.search(name.decode("latin-1")):
            value = raw.decode("latin-1").strip()
            yield value
            # Redact also the part after the scheme (such as `Bearer`), because it may occur alone in a log record.
            yield value.rpartition(" ")[2]
