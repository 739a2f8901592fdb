"""Authentication of a request before its body is read."""

import logging
from collections.abc import Iterable, Mapping

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core import log
from aion_core.auth.authenticator import Authenticator, www_authenticate
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.decision import AccessDenied, AccessGranted
from aion_core.errors import StoreUnavailable
from aion_core.protocol.errors import RETRY_AFTER
from aion_core.web.errors import RETRY_AFTER_SECONDS
from aion_core.web.middleware.paths import agent_at, route_path
from aion_core.web.request.call_context import CALLER, Caller

logger = logging.getLogger(__name__)

_READING = frozenset({"GET", "HEAD"})

_REFUSALS = {
    401: (
        "UNAUTHENTICATED",
        "UNAUTHENTICATED",
        "The caller is not authenticated. Send the credentials of the agent's card.",
    ),
    403: ("PERMISSION_DENIED", "PERMISSION_DENIED", "These credentials do not give access to this agent."),
    429: ("RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS", "Too many passwords are being tried. Try again in a moment."),
    500: ("INTERNAL", "INTERNAL", "Something went wrong on the server. The operator can find it in the log."),
    503: ("UNAVAILABLE", "UNAVAILABLE", "Credentials cannot be checked just now. Try again in a moment."),
}
"""google.rpc code, reason and message by HTTP status. An unauthenticated caller gets only these messages."""


class AuthenticationMiddleware:
    """ASGI middleware. Authenticates a request before its body is read, and stores the caller in the ASGI scope.

    Only the exact paths in `public` are public. Every other path requires credentials, even if no route matches it; the
    routes of the exact paths in `with_tokens` check the credentials themselves.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticators: Mapping[str, Authenticator],
        *,
        at_root: str,
        public: Iterable[str],
        with_tokens: Iterable[str] = (),
    ) -> None:
        """`authenticators` are keyed by agent id. Requests whose path names no known agent go to `at_root`."""
        self._app, self._authenticators, self._at_root = app, authenticators, at_root
        self._public, self._with_tokens = frozenset(public), frozenset(with_tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request if it is authenticated or its path is public; otherwise refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        path = route_path(scope)
        if path in self._with_tokens or (path in self._public and scope["method"] in _READING):
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
