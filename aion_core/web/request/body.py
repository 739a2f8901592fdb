"""Body of a request, read with limits of size and time and parsed strictly as JSON.

Starlette's `request.json()` has no size limit, accepts NaN, and raises an internal error for invalid UTF-8.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InvalidRequestError
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from aion_core.protocol.strict_json import check_json, parse_json

T = TypeVar("T")

MAX_BODY_BYTES = 5 * 1024 * 1024
"""Maximum size of a request body. A Function URL refuses bodies above 6 MB."""

BODY_SECONDS, BODY_IDLE_SECONDS = 120.0, 20.0
"""Time limits of a request body, as a whole and between two pieces. On AWS the function gets the whole body at once."""

SMALL_BODY_BYTES, SMALL_BODY_VALUES = 64 * 1024, 500
"""Maximum size and number of values of a body to parse and convert in the event loop, within a millisecond or two. A
thread parses and converts larger bodies."""

LARGE_DATA_REMEDY = "send large data as a file, or a part with the url of a file."
JSON = "application/json"


class BodyRefused(Exception):
    """Error: a request body was refused before it was parsed. It has the HTTP status of the response."""

    def __init__(self, http: int, error: A2AError) -> None:
        super().__init__(str(error))
        self.http, self.error = http, error


class StrictRequest(Request):
    """HTTP request with a strict `json()` method. Its protocol errors tell the client how to correct the request."""

    def __init__(self, scope: Scope, receive: Receive, *media_types: str) -> None:
        """`media_types` are the accepted media types of the body, by default `application/json`."""
        super().__init__(scope, receive)
        self._media_types = media_types or (JSON,)
        self.read: Any = None
        """Parsed body, possibly an invalid request. An error response repeats the `id` of this body."""
        self._is_large = False

    async def body(self) -> bytes:
        """Return the bytes of the whole body. Raises BodyRefused for a large, slow, incomplete or compressed body."""
        if not hasattr(self, "_body"):
            encoding = self.headers.get("content-encoding", "").strip().lower()
            if encoding not in ("", "identity"):
                # Refuse compression, because the size of the request does not limit the size of the uncompressed body.
                raise BodyRefused(
                    415, ContentTypeNotSupportedError("The body is compressed: send it without a Content-Encoding.")
                )
            chunks: list[bytes] = []
            size = 0
            time = asyncio.get_running_loop().time
            end = time() + BODY_SECONDS
            try:
                async with asyncio.timeout_at(time() + BODY_IDLE_SECONDS) as limit:
                    async for chunk in self.stream():
                        if not chunk:
                            continue  # skip the empty chunk at the end of the body
                        size += len(chunk)
                        if size > MAX_BODY_BYTES:
                            message = f"The body is larger than {MAX_BODY_BYTES} bytes: send a part with the url of a file instead."
                            raise BodyRefused(413, InvalidRequestError(message))
                        chunks.append(chunk)
                        limit.reschedule(min(end, time() + BODY_IDLE_SECONDS))
            except TimeoutError as error:
                raise BodyRefused(408, InvalidRequestError("The body arrives too slowly: send it again.")) from error
            except ClientDisconnect as error:
                # Do not log an error, because the client has disconnected, and the operator cannot prevent this.
                raise BodyRefused(400, InvalidRequestError("The connection was closed within the body.")) from error
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        """Return the body as parsed JSON.

        Raises BodyRefused, ContentTypeNotSupportedError, JSONParseError, InvalidRequestError or InvalidParamsError.
        """
        if hasattr(self, "_json"):
            return self._json
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in self._media_types:
            wanted = " or ".join(self._media_types)
            raise ContentTypeNotSupportedError(f"The Content-Type is {media_type[:80] or 'missing'}: send {wanted}.")
        body = await self.body()
        # Parse a large body in a thread. The number of values is an estimate: it includes commas and brackets in texts.
        self._is_large = len(body) > SMALL_BODY_BYTES or sum(map(body.count, (b",", b"{", b"["))) > SMALL_BODY_VALUES
        await self.convert(self._parse, body)
        self._json = self.read
        return self._json

    async def convert(self, function: Callable[..., T], *args: Any) -> T:
        """Return `function(*args)`, a conversion of the parsed body. It runs in a thread if the body is large."""
        return await asyncio.to_thread(function, *args) if self._is_large else function(*args)

    def _parse(self, body: bytes) -> None:
        # Store the JSON before the check: if the check fails, the error response needs the body's `id`.
        self.read = parse_json(body, "body", remedy=LARGE_DATA_REMEDY)
        check_json(self.read, "body")

    async def json_object(self, *, optional: bool = False) -> dict[str, Any]:
        """Return the body as a JSON object, or {} if it is `optional` and empty. Raises the same errors as `json`."""
        if optional and not await self.body():
            return {}
        body = await self.json()
        if not isinstance(body, dict):
            raise InvalidRequestError("The body has to be a JSON object.")
        return body
