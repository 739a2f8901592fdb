"""CORS: lets scripts of web pages call the agents from a browser, and opens the public documents to all pages.

A browser sends a preflight request without credentials before a script's request. The answer therefore precedes
authentication. No response allows cookies: a page sends its credentials in headers of its own.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.web.middleware import agent_at, route_path
from aion_core.web.request_context import HEADER, VERSION

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
    # The REST API of AWS renames the header above.
    "X-Amzn-Remapped-WWW-Authenticate",
    "X-Amzn-RequestId",
)
"""Response headers that a page's script may read, besides those that browsers always show to it."""


@dataclass(frozen=True, slots=True)
class CorsPolicy:
    """Origins of the pages that may call an agent, with the request headers of their scripts."""

    origins: Collection[str] = ()
    """Exact origins, `*` for all origins, and origins such as `https://*.example.com` for all subdomains."""
    headers: Collection[str] = ()
    """Request headers beyond `REQUEST_HEADERS`."""
    max_age: int = 600
    """Seconds for which a browser may remember the answer to a preflight request."""
    pattern: str = ""
    """Regular expression of further origins."""


class CorsByPathMiddleware:
    """ASGI middleware. Applies the CORS policy of the agent in the request's path, and opens public documents to all origins."""

    def __init__(
        self,
        app: ASGIApp,
        policies: Mapping[str, CorsPolicy],
        *,
        agent_ids: Iterable[str],
        at_root: str,
        public: Iterable[str],
    ) -> None:
        """Take the policies by agent id. For an agent without a policy, responses have no CORS headers."""
        self._app, self._agent_ids, self._at_root, self._public = app, frozenset(agent_ids), at_root, frozenset(public)
        self._of_agents = {agent_id: _middleware(app, policy, METHODS) for agent_id, policy in policies.items()}
        # A client may send the headers of its later requests, such as its credentials, when it reads the card.
        headers = {header for policy in policies.values() for header in policy.headers}
        self._of_public = _middleware(app, CorsPolicy(["*"], headers), ("GET", "HEAD"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight request, or serve the request with CORS headers in its response."""
        app = self._app
        if scope["type"] == "http":
            path = route_path(scope)
            if path in self._public:
                app = self._of_public
            else:
                app = self._of_agents.get(agent_at(path, self._agent_ids, self._at_root), app)
        await app(scope, receive, send)


def _middleware(app: ASGIApp, policy: CorsPolicy, methods: Collection[str]) -> CORSMiddleware:
    patterns = [_pattern(origin) for origin in policy.origins if "*." in origin]
    return CORSMiddleware(
        app,
        allow_origins=policy.origins,
        allow_origin_regex="|".join([*patterns, *([policy.pattern] if policy.pattern else [])]) or None,
        allow_methods=methods,
        allow_headers=[*REQUEST_HEADERS, *policy.headers],
        expose_headers=EXPOSED_HEADERS,
        max_age=policy.max_age,
    )


def _pattern(origin: str) -> str:
    """Return the regular expression of an origin whose host begins with `*.`: it matches subdomains of every depth."""
    scheme, _, rest = origin.partition("*.")
    return rf"{re.escape(scheme)}(?:[a-z0-9_-]+\.)+{re.escape(rest)}"
