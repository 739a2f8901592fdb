"""Response to a request that cannot be read."""

import json

from mangum.types import Receive, Scope, Send

from .http_event import MalformedRequest
from .response import OF_JSON


class Refusal:
    """ASGI app that answers with status 400 and the error's text in JSON. It belongs to no protocol of the app."""

    def __init__(self, error: MalformedRequest) -> None:
        self._body = json.dumps({"message": str(error)}).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        headers = [*OF_JSON, (b"content-length", str(len(self._body)).encode())]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})
