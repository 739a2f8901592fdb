"""CORS: which web pages' scripts may call which agent.

No response allows cookies: pages send their credentials in headers.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.web.middleware.paths import agent_at, route_path
from aion_core.web.request.extensions import HEADER
from aion_core.web.request.versions import VERSION

METHODS = ("DELETE", "GET", "HEAD", "POST")

REQUEST_HEADERS = (
    VERSION,
    *HEADER.values(),
    "Authorization",
    "Cache-Control",
    "Idempotency-Key",
    "If-Modified-Since",
    "If-None-Match",
    "Last-Event-ID",
    "Traceparent",
    "Tracestate",
)
"""Request headers that every policy allows, besides the headers that browsers send without a preflight request."""

EXPOSED_HEADERS = (
    VERSION,
    *HEADER.values(),
    "ETag",
    "Retry-After",
    "WWW-Authenticate",
    # A REST API of API Gateway renames WWW-Authenticate to this header.
    "X-Amzn-Remapped-WWW-Authenticate",
    "X-Amzn-RequestId",
)
"""Response headers that a page's script may read, besides those that browsers always show to it."""


class CorsPolicy(Struct, frozen=True):
    """Origins of the pages that may call an agent, and the request headers that their scripts may send."""

    origins: Collection[str] = ()
    """Exact origins, `*` for all origins, and origins such as `https://*.example.com` for all subdomains."""
    headers: Collection[str] = ()
    """Request headers beyond `REQUEST_HEADERS`."""
    max_age: int = 600
    """Seconds for which a browser may remember the answer to a preflight request."""
    pattern: str = ""
    """Regular expression of further origins."""


def cors_middleware(app: ASGIApp, policy: CorsPolicy, methods: Collection[str] = METHODS) -> CORSMiddleware:
    """Return the app wrapped in Starlette's CORS middleware with this policy."""
    patterns = [_pattern(origin) for origin in policy.origins if "*." in origin]
    return CORSMiddleware(
        app,
        allow_origins=policy.origins,
        allow_origin_regex="|".join([*patterns, *([policy.pattern] if policy.pattern else [])]) or None,
        allow_methods=methods,
        allow_headers=[*REQUEST_HEADERS, *policy.headers],
        expose_headers=EXPOSED_HEADERS,
        # Allow private networks only to listed origins. Otherwise a page of any public origin could call the agent.
        allow_private_network="*" not in policy.origins,
        max_age=policy.max_age,
    )


def _pattern(origin: str) -> str:
    """Return the regular expression for an origin whose host begins with `*.`: it matches subdomains at any depth."""
    scheme, _, rest = origin.partition("*.")
    return rf"{re.escape(scheme)}(?:[a-z0-9_-]+\.)+{re.escape(rest)}"


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
