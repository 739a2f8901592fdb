"""Refusal of requests that the console's own page has not made."""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_OWN = ("same-origin", "none")
"""Values of Sec-Fetch-Site for the page's own requests, and for addresses that the user has typed."""


class OwnOriginMiddleware:
    """ASGI middleware. Passes only requests to this host and port, and of browsers only those of its own page.

    Pages of other servers on this machine are refused too: they have the same site, but another port. A program without
    a browser, such as a server that posts to the receiver of webhooks, sends neither Origin nor Sec-Fetch-Site.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it with status 403."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._is_own(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse("Only the console's own page may call it.\n", 403)(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    def _is_own(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        # A host name that resolves to this machine is another origin (DNS rebinding).
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return False
        if origins and origins != [f"http://{hosts[0]}"]:
            return False
        # A link of another page may open the console: it cannot read what is shown.
        is_link = scope["method"] == "GET" and headers.get("sec-fetch-dest") == "document"
        return is_link or headers.get("sec-fetch-site", "none") in _OWN
