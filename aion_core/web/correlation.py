"""The outermost layer: what is logged of a request carries its id, and none of the credentials that came with it (R13)."""

import re
from collections.abc import Iterable, Iterator
from uuid import uuid4

from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core import log

_HOLDS_A_SECRET = re.compile(r"auth|token|secret|api-?key|cookie|credential|password|signature|session", re.IGNORECASE)
"""What the name of a header holds whose value is nobody else's to read."""


class Correlated:
    """Gives each request an id: that of the invocation, on Lambda, under which its other lines are found too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        invocation = getattr(scope.get("aws.context"), "aws_request_id", "")
        with log.request(invocation or str(uuid4()), _secrets(scope["headers"])):
            await self._app(scope, receive, send)


def _secrets(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    for name, raw in headers:
        if _HOLDS_A_SECRET.search(name.decode("latin-1")):
            value = raw.decode("latin-1").strip()
            yield value
            # Behind the name of its scheme.
            yield value.rpartition(" ")[2]
