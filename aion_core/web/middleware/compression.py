"""Compression of large responses."""

import re

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.web.request.entrypoint import is_buffered

_REFUSED_GZIP = re.compile(r"(?:^|,)\s*(?:x-)?gzip\s*;\s*q\s*=\s*0(?:\.0*)?\s*(?:,|$)", re.IGNORECASE)
"""Matches an Accept-Encoding header with gzip at the weight zero: "not acceptable" (RFC 9110, section 12.5.3)."""

COMPRESSED_BYTES = 16 * 1024
"""Smallest compressed response body. Smaller ones, such as cards, are not worth the time of the processor."""


class LargeResponseMiddleware:
    """ASGI middleware. Compresses large responses with gzip if the client accepts it, but no streams.

    Starlette's middleware never compresses an event stream. A buffered Lambda response is not compressed, because an
    HTTP entry point might not decode the base64 of a binary body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(
            app, COMPRESSED_BYTES, compresslevel=5, exclude_content_types=("text/event-stream",)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and compress its response if it is large."""
        if scope["type"] != "http" or is_buffered(scope):
            await self._app(scope, receive, send)
            return
        accepted = ",".join(Headers(scope=scope).getlist("accept-encoding"))
        if _REFUSED_GZIP.search(accepted):
            # Remove Accept-Encoding if it refuses gzip (`gzip;q=0`). Starlette only searches for the word "gzip", so it
            # would compress the response.
            headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
            scope = {**scope, "headers": headers}
        await self._compressing(scope, receive, send)
