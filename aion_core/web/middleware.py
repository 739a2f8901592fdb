"""ASGI layers around the routes, the outermost first: observability, loopback check, authentication, background turns."""

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core import log
from aion_core.auth.challenges import challenges
from aion_core.auth.decision import Allowed, Refused
from aion_core.auth.guard import Guard
from aion_core.auth.presented import Presented
from aion_core.errors import StoreUnavailable
from aion_core.ports import Metrics, NoopTraces, SpanKind, Traces
from aion_core.protocol.errors import RETRY_AFTER
from aion_core.tasks.call import Deadline
from aion_core.web.errors import RETRY_AFTER_SECONDS
from aion_core.web.request_context import CALLER, TIME_UP, WORK, Caller

logger = logging.getLogger(__name__)

# ── Observability ─────────────────────────────────────────────────────────────────────────────────────────────────────

_HOLDS_A_SECRET = re.compile(r"auth|token|secret|api-?key|cookie|credential|password|signature|session", re.IGNORECASE)
"""What the name of a header holds whose value is nobody else's to read."""


class Observed:
    """Gives each request an id: that of the invocation, on Lambda, under which its other lines are found too.

    Its call returns when the turns that the request has set going rest, as the app within it does: on Lambda that is the
    end of the invocation. Logs and traces hold none of the credentials that came with the request.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, traces: Traces) -> None:
        self._app, self._metrics, self._traces = app, metrics, traces
        self._is_traced = not isinstance(traces, NoopTraces)
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


# ── Loopback ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_OURS = r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?"
_HOST = re.compile(_OURS, re.IGNORECASE)
_ORIGIN = re.compile(f"https?://{_OURS}", re.IGNORECASE)


class LoopbackOnly:
    """Refuses what was not sent to this machine by its own name, or was sent by another site's page.

    A page of another site may send requests to 127.0.0.1, and by a name of its own that it has pointed there (DNS
    rebinding) may read the answers. A browser sends the name in Host and the site in Origin.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and _is_ours(Headers(scope=scope))):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            sentence = "This server is for this machine: call it as 127.0.0.1 or localhost, from a page of its own.\n"
            await PlainTextResponse(sentence, 403)(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})


def _is_ours(headers: Headers) -> bool:
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    return (
        len(hosts) == 1
        and _HOST.fullmatch(hosts[0]) is not None
        and all(_ORIGIN.fullmatch(origin) for origin in origins)
    )


# ── Authentication ────────────────────────────────────────────────────────────────────────────────────────────────────

_READING = frozenset({"GET", "HEAD"})

_SAID = {
    401: (
        "UNAUTHENTICATED",
        "UNAUTHENTICATED",
        "Who calls is not known. Send the credentials that the agent's card asks for.",
    ),
    403: ("PERMISSION_DENIED", "PERMISSION_DENIED", "These credentials do not give access to this agent."),
    429: ("RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS", "Too many passwords are being tried. Try again in a moment."),
    500: ("INTERNAL", "INTERNAL", "Something went wrong on the server. The operator finds it in the log."),
    503: ("UNAVAILABLE", "UNAVAILABLE", "Credentials cannot be checked just now. Try again in a moment."),
}
"""All that is ever said, whoever asks and whatever is wrong: google.rpc's name for it, the reason, and a sentence."""


class Authentication:
    """Admits requests to the agents of an app, before a body is read, and says whose they are.

    Public is a short list of exact paths. Every other path, in whatever spelling, asks for credentials, whether there is
    something at it or not.
    """

    def __init__(self, app: ASGIApp, guards: Mapping[str, Guard], *, at_root: str, public: Iterable[str]) -> None:
        """`guards`: one for each agent; `at_root`: the agent whose guard stands before all that is no agent's."""
        self._app, self._guards, self._at_root, self._public = app, guards, at_root, frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
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
        agent_id = self._agent_at(path)
        guard = self._guards[agent_id]
        try:
            decided = await guard.admit(Presented.of(scope["headers"], scope.get("aws.event")))
        except StoreUnavailable as error:
            logger.warning("Credentials cannot be checked: %s", error, exc_info=error)
            decided = Refused(503)
        except Exception:
            logger.exception("Credentials were not checked, for a reason nobody expected.")
            decided = Refused(500)
        if isinstance(decided, Allowed):
            caller = Caller(agent_id, decided.principal, decided.skills if guard.security.skills else None)
            await self._app({**scope, CALLER: caller}, receive, send)
        else:
            await refusal(decided, guard)(scope, receive, send)

    def _agent_at(self, path: str) -> str:
        """Return the agent whose path it is, spelled exactly as its routes are."""
        _, _, rest = path.partition("/agents/")
        agent_id = rest.partition("/")[0] if path.startswith("/agents/") else ""
        return agent_id if agent_id in self._guards else self._at_root


def route_path(scope: Scope) -> str:
    """Return the path by which the app's routes are found: without what the server was told to stand below."""
    path: str = scope["path"]
    below: str = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(below) if path.startswith(f"{below}/") else path


def refusal(refused: Refused, guard: Guard) -> Response:
    """Return the answer: the same bytes for everybody who is refused with this status."""
    status, reason, sentence = _SAID[refused.status]
    body = {
        "error": {
            "code": refused.status,
            "status": status,
            "message": sentence,
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": reason,
                    "domain": "a2a-protocol.org",
                    "metadata": {RETRY_AFTER: str(RETRY_AFTER_SECONDS)} if refused.status == 429 else {},
                }
            ],
        }
    }
    headers = {"Cache-Control": "no-store"}
    if refused.status in (401, 403):
        headers["WWW-Authenticate"] = challenges(guard.security, refused)
    if refused.status in (429, 503):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return JSONResponse(body, refused.status, headers)


# ── Background turns ──────────────────────────────────────────────────────────────────────────────────────────────────

STREAMED = "aion.streamed"
"""What the scope of a request holds whose answer leaves as it is written, on Lambda."""

LAST_WORDS_SECONDS = 0.5
"""How long a request that is stopped waits for the turns that it stops."""


class AwaitBackgroundTurnsMiddleware:
    """Lets a request's app call return only when the turns that it set going have come to rest.

    The answer is long gone by then. On Lambda the environment freezes when the next event is asked for, which our
    runtime loop does once the call has returned; elsewhere nobody waits for the call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then rest."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        work: set[asyncio.Task[None]] = set()
        # A server that can be told to stop has put its own there.
        deadline = scope.get(TIME_UP) or Deadline(_deadline(scope))

        async def send_and_rest(message: Message) -> None:
            if not message.get("more_body") and message["type"] == "http.response.body":
                # Behind this front the answer leaves only when the call returns: what still runs is handed on.
                deadline.now.set()
                await _rest(work)
            await send(message)

        try:
            await self._app(
                {**scope, WORK: work, TIME_UP: deadline}, receive, send_and_rest if _is_buffered(scope) else send
            )
            await _rest(work)
        except BaseException:
            # The invocation's time is up: nothing of it may go on in the next one. The lease finds the turn an heir.
            for task in work:
                task.cancel()
            if work:
                # They still count what there was of them.
                await asyncio.wait(set(work), timeout=LAST_WORDS_SECONDS)
            raise


async def _rest(work: set[asyncio.Task[None]]) -> None:
    while work:
        await asyncio.wait(set(work))


def _deadline(scope: Scope) -> datetime | None:
    """Return when Lambda ends the invocation; None where this is not Lambda."""
    context = scope.get("aws.context")
    if context is None:
        return None
    return datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())


def _is_buffered(scope: Scope) -> bool:
    """Tell whether the answer leaves as a whole: Lambda's, and not by our own loop."""
    return "aws.context" in scope and STREAMED not in scope
