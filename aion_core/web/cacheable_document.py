"""Public documents with HTTP caching headers and conditional requests (A2A 8.6.1)."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from aion_core.protocol.card import canonical_json

MAX_AGE = 300

JSON = "application/json"
"""Media type of a card. Browsers and crawlers also read cards: `application/a2a+json` is for HTTP+JSON (A2A 11.1)."""


class CacheableDocument:
    """Public document (JSON or a file) with HTTP caching headers and conditional requests (A2A 8.6.1)."""

    def __init__(
        self,
        document: Mapping[str, Any] | bytes,
        since: datetime,
        *,
        vary: str = "",
        media_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`document` is JSON, or the bytes of a file. `headers` are added to each response."""
        self._body = document if isinstance(document, bytes) else canonical_json(document)
        self._since, self._media_type = since.astimezone(UTC).replace(microsecond=0), media_type
        self._headers = {
            "cache-control": f"public, max-age={MAX_AGE}",
            # Use a strong ETag, because every process returns the same bytes.
            "etag": f'"{hashlib.sha256(self._body).hexdigest()[:32]}"',
            # Use the start of this process: only a deployment changes a document, and it starts new processes. All
            # files of a package have the same date, so their date would not show a change.
            "last-modified": format_datetime(self._since, usegmt=True),
            **({"vary": vary} if vary else {}),
            **(headers or {}),
        }

    async def read(self, request: Request) -> Response:
        """Return the response to a request. This is Starlette's endpoint for the document's route."""
        return self.answer(request)

    def answer(self, request: Request) -> Response:
        """Return the document, or status 304 if the client already has it (RFC 9110 13.2.2)."""
        if self._is_known(request):
            return Response(status_code=304, headers=self._headers)
        if request.method == "HEAD":
            return Response(
                headers={**self._headers, "content-length": str(len(self._body))}, media_type=self._media_type
            )
        return Response(self._body, headers=self._headers, media_type=self._media_type)

    def _is_known(self, request: Request) -> bool:
        tags = request.headers.get("if-none-match")
        if tags is not None:
            known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
            return not known.isdisjoint({"*", self._headers["etag"]})
        try:
            return self._since <= parsedate_to_datetime(request.headers["if-modified-since"])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return False  # If-Modified-Since is missing or invalid. Its time zone may raise OverflowError.
