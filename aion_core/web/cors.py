"""CORS policies: origins of web pages whose scripts may call an agent, and the permitted request headers.

No response allows cookies: pages send their credentials in headers.
"""

import re
from collections.abc import Collection

from msgspec import Struct
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

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
