"""ASGI middleware, outermost first: observability, loopback check, CORS, authentication, turns, compression, paths."""

import asyncio
import logging
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core import log
from aion_core.auth.authenticator import Authenticator, www_authenticate
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.policy import AccessDenied, AccessGranted
from aion_core.engine.process.background import BackgroundTurns
from aion_core.engine.process.deadline import Deadline
from aion_core.errors import StoreUnavailable
from aion_core.protocol.errors import RETRY_AFTER
from aion_core.telemetry import Metric, Metrics, NoopTraces, SpanKind, Traces
from aion_core.web.cors import CorsPolicy, cors_middleware
from aion_core.web.errors import RETRY_AFTER_SECONDS
from aion_core.web.request_context import BACKGROUND, CALLER, DEADLINE, Caller

logger = logging.getLogger(__name__)

# ── Observability ─────────────────────────────────────────────────────────────────────────────────────────────────────

_CONFIDENTIAL = re.compile(
    r"auth|token|secret|api-?key|^key$|(?<!idempotency)[_-]key$|cookie|credential|password|signature|session",
    re.IGNORECASE,
)
"""Matches the names of headers with confidential values. The verifiers know the configured headers of API keys."""


class ObservabilityMiddleware:
    """ASGI middleware. Adds a request id to log records, traces requests, counts internal errors and flushes metrics.

    On Lambda the request id is the id of the invocation. Metrics are flushed after the request's background turns. Logs
    and traces contain no credentials of the request.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, traces: Traces) -> None:
        self._app, self._metrics, self._traces = app, metrics, traces
        self._is_traced = not isinstance(traces, NoopTraces)
        self._is_cold = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then flush metrics and traces."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            # At shutdown, flush the metrics of requests that have not ended: they would be lost with the process.
            self._metrics.flush()
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


# ── Loopback ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_LOOPBACK = r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?"
_HOST = re.compile(_LOOPBACK, re.IGNORECASE)
LOOPBACK_ORIGIN = f"https?://{_LOOPBACK}"
"""Pattern of the origins of pages that a server on this machine serves."""
_ORIGIN = re.compile(LOOPBACK_ORIGIN, re.IGNORECASE)


class LoopbackOnlyMiddleware:
    """ASGI middleware. Refuses requests to host names other than the loopback's, and requests from other web sites.

    A page of another site can send requests to 127.0.0.1. If its own host name resolves to this address (DNS
    rebinding), it can also read the responses. A browser sends the host name in Host and the site in Origin.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it with status 403."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and _is_local(Headers(scope=scope))):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            text = "This server is for this machine: call it as 127.0.0.1 or localhost, from a page of this machine.\n"
            await PlainTextResponse(text, 403)(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})


def _is_local(headers: Headers) -> bool:
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    return (
        len(hosts) == 1
        and _HOST.fullmatch(hosts[0]) is not None
        and all(_ORIGIN.fullmatch(origin) for origin in origins)
    )


# ── CORS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class CorsByPathMiddleware:
    """ASGI middleware. Applies the CORS policy of the agent in the request's path. Opens public documents to all.

    Before a script's request, a browser sends a preflight request without credentials. So this middleware responds
    before authentication.
    """

    def __init__(
        self,
        app: ASGIApp,
        policies: Mapping[str, CorsPolicy],
        *,
        agent_ids: Iterable[str],
        at_root: str,
        public: Iterable[str],
    ) -> None:
        """`policies` maps agent ids to policies. Responses of an agent without a policy have no CORS headers."""
        self._app, self._agent_ids, self._at_root, self._public = app, frozenset(agent_ids), at_root, frozenset(public)
        self._of_agents = {agent_id: cors_middleware(app, policy) for agent_id, policy in policies.items()}
        # Allow all agents' headers, because a client may send its credentials already when it reads the card.
        headers = {header for policy in policies.values() for header in policy.headers}
        self._of_public = cors_middleware(app, CorsPolicy(["*"], headers), ("GET", "HEAD"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a preflight request, or serve the request and add CORS headers to its response."""
        app = self._app
        if scope["type"] == "http":
            path = route_path(scope)
            if path in self._public:
                app = self._of_public
            else:
                app = self._of_agents.get(agent_at(path, self._agent_ids, self._at_root), app)
        await app(scope, receive, send)


# ── Authentication ────────────────────────────────────────────────────────────────────────────────────────────────────

_READING = frozenset({"GET", "HEAD"})

_REFUSALS = {
    401: (
        "UNAUTHENTICATED",
        "UNAUTHENTICATED",
        "The caller is not authenticated. Send the credentials of the agent's card.",
    ),
    403: ("PERMISSION_DENIED", "PERMISSION_DENIED", "These credentials do not give access to this agent."),
    429: ("RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS", "Too many passwords are being tried. Try again in a moment."),
    500: ("INTERNAL", "INTERNAL", "Something went wrong on the server. The operator finds it in the log."),
    503: ("UNAVAILABLE", "UNAVAILABLE", "Credentials cannot be checked just now. Try again in a moment."),
}
"""google.rpc code, reason and message by HTTP status. An unauthenticated caller gets only these messages."""


class AuthenticationMiddleware:
    """ASGI middleware. Authenticates a request before its body is read, and stores the caller in the ASGI scope.

    Only the exact paths in `public` are public. Every other path requires credentials, even if no route matches it.
    """

    def __init__(
        self, app: ASGIApp, authenticators: Mapping[str, Authenticator], *, at_root: str, public: Iterable[str]
    ) -> None:
        """`authenticators` are keyed by agent id. Requests whose path names no known agent go to `at_root`."""
        self._app, self._authenticators, self._at_root, self._public = app, authenticators, at_root, frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request if it is authenticated or its path is public; otherwise refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        path = route_path(scope)
        if path in self._public and scope["method"] in _READING:
            await self._app(scope, receive, send)
            return
        agent_id = agent_at(path, self._authenticators, self._at_root)
        authenticator = self._authenticators[agent_id]
        try:
            credentials = RequestCredentials.from_request(scope["headers"], scope.get("aws.event"))
            decision = await authenticator.authenticate(credentials)
        except StoreUnavailable as error:
            logger.warning("Credentials cannot be checked: %s", error, exc_info=error)
            decision = AccessDenied(503)
        except Exception:
            logger.exception("Credentials were not checked: unexpected error.")
            decision = AccessDenied(500)
        if isinstance(decision, AccessGranted):
            skills = decision.skills if authenticator.policy.skills else None
            caller = Caller(agent_id, decision.principal, skills)
            await self._app({**scope, CALLER: caller}, receive, send)
        else:
            if decision.status >= 500:
                log.count_internal_error()
            await refusal(decision, authenticator)(scope, receive, send)


def agent_at(path: str, agent_ids: Container[str], at_root: str) -> str:
    """Return the agent id in a request path. For any other path return `at_root`, the id of the agent at the root."""
    _, _, rest = path.partition("/agents/")
    agent_id = rest.partition("/")[0] if path.startswith("/agents/") else ""
    return agent_id if agent_id in agent_ids else at_root


def route_path(scope: Scope) -> str:
    """Return the request path without the server's root path, to compare it with route paths."""
    path: str = scope["path"]
    root = root_path(scope)
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def root_path(scope: Scope) -> str:
    """Return the server's root path with a slash at its beginning and none at its end; "" without a root path."""
    root = scope.get("root_path", "").strip("/")
    return f"/{root}" if root else ""


def refusal(denied: AccessDenied, authenticator: Authenticator) -> Response:
    """Return the error response for denied access. All refusals with the same status have the same body."""
    status, reason, message = _REFUSALS[denied.status]
    body = {
        "error": {
            "code": denied.status,
            "status": status,
            "message": message,
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": reason,
                    "domain": "a2a-protocol.org",
                    "metadata": {RETRY_AFTER: str(RETRY_AFTER_SECONDS)} if denied.status == 429 else {},
                }
            ],
        }
    }
    headers = {"Cache-Control": "no-store"}
    if denied.status in (401, 403):
        headers["WWW-Authenticate"] = www_authenticate(authenticator.policy, denied)
    if denied.status in (429, 503):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return JSONResponse(body, denied.status, headers)


# ── Background turns ──────────────────────────────────────────────────────────────────────────────────────────────────

STREAMED = "aion.streamed"
"""Key in the ASGI scope. Aion's Lambda runtime sets it for a request with a streamed response."""


class AwaitBackgroundTurnsMiddleware:
    """ASGI middleware. The app call returns only after the request's background turns have ended.

    The client gets the response earlier, except in a buffered Lambda response. After the app call, aion's runtime loop
    requests the next event, and Lambda may freeze the environment. Other servers do not wait for the app call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then wait for its background turns."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        turns = BackgroundTurns()
        # Use the deadline in the scope if the server has set one. Such a server has a graceful shutdown.
        deadline = scope.get(DEADLINE) or Deadline(_deadline(scope))

        async def send_after_turns(message: Message) -> None:
            if not message.get("more_body") and message["type"] == "http.response.body":
                # Suspend the running turns, so that the queue hands them to a worker, because Lambda sends a buffered
                # response only at the end.
                deadline.now.set()
                await turns.wait()
            await send(message)

        try:
            await self._app(
                {**scope, BACKGROUND: turns, DEADLINE: deadline},
                receive,
                send_after_turns if _is_buffered(scope) else send,
            )
            await turns.wait()
        except BaseException:
            # Cancel the turns, because the invocation ends: another worker resumes them, and they must not continue in
            # the next invocation.
            await turns.cancel()
            raise


def _deadline(scope: Scope) -> datetime | None:
    """Return the time at which the Lambda invocation ends; None outside of Lambda."""
    context = scope.get("aws.context")
    if context is None:
        return None
    return datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())


def _is_buffered(scope: Scope) -> bool:
    """Return True if Lambda buffers the response of this request. Only aion's own runtime loop streams responses."""
    return "aws.context" in scope and STREAMED not in scope


# ── Compression ───────────────────────────────────────────────────────────────────────────────────────────────────────


class LargeResponseMiddleware:
    """ASGI middleware. Compresses large responses with gzip if the client accepts it, but no streams.

    Starlette's middleware never compresses an event stream. A buffered Lambda response is not compressed, because an
    HTTP entry point might not decode the base64 of a binary body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(
            app, COMPRESSED_BYTES, compresslevel=5, exclude_content_types=("text/event-stream",)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and compress its response if it is large."""
        if scope["type"] != "http" or _is_buffered(scope):
            await self._app(scope, receive, send)
            return
        accepted = ",".join(Headers(scope=scope).getlist("accept-encoding"))
        if _REFUSED_GZIP.search(accepted):
            # Remove Accept-Encoding if it refuses gzip (`gzip;q=0`). Starlette only searches for the word "gzip", so it
            # would compress the response.
            headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
            scope = {**scope, "headers": headers}
        await self._compressing(scope, receive, send)


_REFUSED_GZIP = re.compile(r"(?:^|,)\s*(?:x-)?gzip\s*;\s*q\s*=\s*0(?:\.0*)?\s*(?:,|$)", re.IGNORECASE)
"""Matches an Accept-Encoding header with gzip at the weight zero: "not acceptable" (RFC 9110, section 12.5.3)."""

COMPRESSED_BYTES = 16 * 1024
"""Smallest compressed response body. Smaller ones, such as cards, are not worth the time of the processor."""


# ── Paths ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class PathMiddleware:
    """ASGI middleware. Adapts paths to the routes: Starlette needs a root path such as `/api`, not `api` or `/api/`.

    It also removes one slash from the end of a request path, because no HTTP+JSON route ends with a slash. It runs after
    authentication, so a public path with such a slash requires credentials.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request under the adapted paths."""
        if scope.get("root_path"):
            scope = {**scope, "root_path": root_path(scope)}
        if scope["type"] == "http" and len(path := route_path(scope)) > 1 and path.endswith("/") and path[-2] != "/":
            scope = {**scope, "path": scope["path"].removesuffix("/")}
        await self._app(scope, receive, send)
