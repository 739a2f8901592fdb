"""What keeps a server on loopback from strange web pages: it answers to its own names only (R19).

A page of another site may send requests to 127.0.0.1, and by a name of its own that it has pointed there (DNS rebinding)
may read the answers. A browser says which name and which site it was, in Host and in Origin.
"""

import re

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_OURS = r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?"
_HOST = re.compile(_OURS, re.IGNORECASE)
_ORIGIN = re.compile(f"https?://{_OURS}", re.IGNORECASE)


class LoopbackOnly:
    """Refuses what was not sent to this machine by its own name, or was sent by another site's page."""

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
