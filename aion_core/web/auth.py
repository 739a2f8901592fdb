"""The layer in front of every route: nobody goes on to anything but what is public who has not been admitted (R96).

It decides before a body is read. What is public is a short list of exact paths; whatever else somebody may write, in
whatever spelling, is not, and asks for credentials, whether there is something at it or not.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.auth.challenges import challenges
from aion_core.auth.decision import Allowed, Refused
from aion_core.auth.guard import Guard
from aion_core.auth.presented import Presented
from aion_core.auth.principal import Principal
from aion_core.errors import StoreUnavailable
from aion_core.protocol.errors import RETRY_AFTER
from aion_core.web.errors import RETRY_AFTER_SECONDS

logger = logging.getLogger(__name__)

CALLER = "aion.caller"
"""Where the scope of a request holds the `Caller` that was admitted."""

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


@dataclass(frozen=True, slots=True)
class Caller:
    """Who was admitted, and to which agent."""

    agent_id: str
    principal: Principal
    skills: frozenset[str] | None = None
    """The skills with requirements of their own that the caller fulfils; None where the agent has no such skill."""


class Authentication:
    """Admits requests to the agents of an app, and says whose they are."""

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
            logger.error("Credentials cannot be checked: %s", error)
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
