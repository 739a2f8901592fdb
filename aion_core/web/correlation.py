"""The outermost layer: what is logged, counted and traced of a request is found by its id, and leaves when it is over.

None of the credentials that came with the request are in it (R13).
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core import log
from aion_core.ports import Metrics, SpanKind, Traces, Untraced

_HOLDS_A_SECRET = re.compile(r"auth|token|secret|api-?key|cookie|credential|password|signature|session", re.IGNORECASE)
"""What the name of a header holds whose value is nobody else's to read."""


class Observed:
    """Gives each request an id: that of the invocation, on Lambda, under which its other lines are found too.

    Its call returns when the turns that the request has set going rest, as the app within it does: on Lambda that is the
    end of the invocation.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, traces: Traces) -> None:
        self._app, self._metrics, self._traces = app, metrics, traces
        self._is_traced = not isinstance(traces, Untraced)
        self._is_cold = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then let go of what was counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            # At the end of the process: what a request that did not stop in time has counted since.
            self._metrics.flush()
            return
        invocation = getattr(scope.get("aws.context"), "aws_request_id", "")
        with log.request(invocation or str(uuid4()), _secrets(scope["headers"]), **self._invoked(invocation)):
            try:
                await (self._trace if self._is_traced else self._app)(scope, receive, send)
            finally:
                self._metrics.flush()
                if self._is_traced:
                    await asyncio.to_thread(self._traces.flush)

    def _invoked(self, invocation: str) -> dict[str, str | bool]:
        if not invocation:
            return {}
        cold_start, self._is_cold = self._is_cold, False
        return {"function_request_id": invocation, "cold_start": cold_start}

    async def _trace(self, scope: Scope, receive: Receive, send: Send) -> None:
        traceparent = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1").strip()
        # Neither path nor query, which are the client's own words.
        asked: dict[str, str | int] = {"http.request.method": scope["method"]}
        with self._traces.span("request", SpanKind.SERVER, traceparent=traceparent, attributes=asked) as span:

            async def send_and_note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.note("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.failed(f"HTTP {message['status']}")
                await send(message)

            await self._app(scope, receive, send_and_note)


def _secrets(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    for name, raw in headers:
        if _HOLDS_A_SECRET.search(name.decode("latin-1")):
            value = raw.decode("latin-1").strip()
            yield value
            # Behind the name of its scheme.
            yield value.rpartition(" ")[2]
