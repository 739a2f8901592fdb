"""Console in the browser: static files of the chat page and of the API page, with their headers."""

import gzip
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.web.cacheable_document import CacheableDocument

PREFIX = "/console/"
PAGE = "index.html"
_ADDRESS = re.compile(r"/(agents/[^/]+/?)?")
"""Addresses of the page: the root with the default agent, and the path of each agent."""
MEDIA_TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml",
}  # fmt: skip
API_FILES = {"/docs": "api.html", "/openapi.json": "openapi.json"}
"""Files of the API's documentation, by their paths: a page, and the OpenAPI document that it shows."""

# Block scripts and styles in agents' texts, in case the page fails to show these texts as text nodes.
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class ConsoleMiddleware:
    """ASGI middleware. Serves the console to browsers at the root and at each agent's path, its files, and the API page.

    The page has no credentials and no special access: its requests to the agents are authenticated like all others.
    """

    def __init__(
        self,
        app: ASGIApp,
        features: Mapping[str, Any] | None = None,
        *,
        further: Sequence[Traversable] = (),
        agent_id: str = "",
    ) -> None:
        """Read the static files. `agent_id` is the agent that the page selects first.

        `features` are of the server's further routes. `further` are the static files of the page's views for them.
        """
        self._app = app
        since = datetime.now(UTC)
        static = files("aion_core.web").joinpath("static")
        contents = dict(_content(file) for file in [*static.iterdir(), *further])
        # The page names its files by relative paths: behind an API's stage, nobody knows the path of the root.
        deeper = {f"{up}{PAGE}": _page_below(contents[PAGE], up) for up in ("../", "../../")}
        self._documents = {name: _document(name, each, since) for name, each in {**contents, **deeper}.items()}
        known = {"agent": agent_id, "development": False, "receiver": "", **(features or {})}
        self._documents["features.json"] = CacheableDocument(known, since, headers=SECURITY_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file of the console, or pass the request to the app."""
        app = self._app
        if scope["type"] == "http" and (name := _file_name(scope)) is not None:
            stage = (scope.get("raw_path") or b"/").decode().rpartition("/")[2] if scope["path"] == "/" else ""
            # The page's relative paths begin at an API's stage only if a slash follows it.
            app = RedirectResponse(f"{stage}/") if stage else self._response(name, Request(scope))
        await app(scope, receive, send)

    def _response(self, name: str, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(status_code=405, headers={"allow": "GET, HEAD"})
        if name not in self._documents:
            return Response("The console has no such file.\n", 404, media_type="text/plain")
        return self._documents[name].answer(request)


def _content(file: Traversable) -> tuple[str, bytes]:
    """Return the name and bytes of a static file. A `.gz` file is decompressed first."""
    name, content = PurePosixPath(file.name), file.read_bytes()
    return (name.stem, gzip.decompress(content)) if name.suffix == ".gz" else (name.name, content)


def _page_below(page: bytes, up: str) -> bytes:
    """Return the page for a path from which `up` leads to the root."""
    return re.sub(rb'(href|src)="(console/|docs")', rb'\1="' + up.encode() + rb"\2", page)


def _document(name: str, content: bytes, since: datetime) -> CacheableDocument:
    media_type = MEDIA_TYPES[PurePosixPath(name).suffix]
    return CacheableDocument(content, since, vary="Accept", media_type=media_type, headers=SECURITY_HEADERS)


def _file_name(scope: Scope) -> str | None:
    """Return the name of the console file for this request; None for a request to an agent."""
    path: str = scope["path"]
    if path in API_FILES:
        return API_FILES[path]
    if path.startswith(PREFIX):
        return path.removeprefix(PREFIX)
    is_page = scope["method"] in ("GET", "HEAD") and "text/html" in Headers(scope=scope).get("accept", "")
    return "../" * (path.count("/") - 1) + PAGE if is_page and _ADDRESS.fullmatch(path) else None
