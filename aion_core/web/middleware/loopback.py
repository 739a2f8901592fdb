"""Refusal of requests that do not come from this machine."""

import re

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

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
            text = "This server is for this machine only: call it as 127.0.0.1 or localhost, from a page on this machine.\n"
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
