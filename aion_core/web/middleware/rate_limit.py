"""Limit of each caller's requests per minute."""

import math
from collections.abc import Callable, Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.errors import AionError, TooManyRequests
from aion_core.protocol.errors import to_wire
from aion_core.web.middleware.paths import route_path
from aion_core.web.request.call_context import CALLER, owner_of

Refuse = Callable[[Request, Exception], Response]
"""Function from a request and an error to the error response, in the format of the path's protocol binding."""


class RateLimitMiddleware:
    """ASGI middleware. Refuses a caller's requests above the limit per minute, before it reads their bodies.

    Requests to public paths are not counted, because their callers are not authenticated.
    """

    def __init__(
        self, app: ASGIApp, counters: RateLimits, *, per_minute: int, public: Iterable[str], refuse: Refuse
    ) -> None:
        self._app, self._counters, self._per_minute, self._refuse = app, counters, per_minute, refuse
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the request and serve it, or send an error response if the caller is above the limit."""
        if scope["type"] != "http" or route_path(scope) in self._public:
            await self._app(scope, receive, send)
            return
        try:
            await self._count(owner_of(scope.get(CALLER)))
        except AionError as error:
            response = self._refuse(Request(scope), to_wire(error))
            response.headers["Cache-Control"] = "no-store"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _count(self, caller: str) -> None:
        wait = await self._counters.take(caller, per_minute=self._per_minute)
        if wait > 0:
            seconds = math.ceil(wait)
            raise TooManyRequests(
                f"You may send {self._per_minute} requests a minute. Try again in {seconds} s.", seconds=seconds
            )
