"""Console in the browser: the static files of a page that chats with the agents, of the API's page, and their headers."""

import hashlib
import json
import os
import signal
from collections.abc import Callable
from importlib.resources import files

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/console/"
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json"}
API_FILES = {"/docs": "api.html", "/openapi.json": "openapi.json"}
"""Files of the API's documentation, by their paths: a page, and the OpenAPI document that it shows."""

# Agents' texts are shown as text nodes. If that ever fails, the policy still lets no script or style of theirs run.
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class ConsoleMiddleware:
    """ASGI middleware. Serves the console at the root to browsers, its files below `/console/`, and the API's page at `/docs`.

    The page has no credentials and reads nothing by itself: its requests to the agents are authenticated like all
    others. With `kill`, the page may end this process, to show how another one takes over.
    """

    def __init__(self, app: ASGIApp, kill: Callable[[], None] | None = None) -> None:
        self._app, self._kill = app, kill
        self._files = {
            each.name: (each.read_bytes(), MEDIA_TYPES[os.path.splitext(each.name)[1]])
            for each in files("aion_core.web").joinpath("static").iterdir()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file of the console, or pass the request on."""
        name = _file_name(scope) if scope["type"] == "http" else None
        app = self._app if name is None else self._response(name, Request(scope))
        await app(scope, receive, send)

    def _response(self, name: str, request: Request) -> Response:
        if name == "kill" and request.method == "POST" and self._kill is not None:
            self._kill()
            return Response(status_code=202)
        if request.method not in ("GET", "HEAD"):
            return Response(status_code=405, headers={"allow": "GET, HEAD"})
        if name == "features.json":
            return _document(json.dumps({"kill": self._kill is not None}).encode(), "application/json", request)
        if name not in self._files:
            return Response("The console has no such file.\n", 404, media_type="text/plain")
        return _document(*self._files[name], request)


def kill_process() -> None:
    """End this process at once, like a crash: no turn is handed off and no stream is closed."""
    os.kill(os.getpid(), signal.SIGKILL)


def _file_name(scope: Scope) -> str | None:
    """Return the name of the requested file of the console; None for a request to an agent."""
    path = scope["path"]
    if path == "/" and scope["method"] in ("GET", "HEAD"):
        return "index.html" if "text/html" in Headers(scope=scope).get("accept", "") else None
    if path in API_FILES:
        return API_FILES[path]
    return path.removeprefix(PREFIX) if path.startswith(PREFIX) else None


def _document(content: bytes, media_type: str, request: Request) -> Response:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**SECURITY_HEADERS, "etag": etag, "vary": "Accept"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)
