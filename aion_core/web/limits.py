"""Limits for each caller: requests per minute, open streams and blocking sends."""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.clock import Clock
from aion_core.engine.call import CallContext
from aion_core.engine.limits.limits import Limits, OpenStream
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.errors import AionError, StoreError, TooManyRequests
from aion_core.protocol.errors import to_wire
from aion_core.web.middleware import route_path
from aion_core.web.request_context import CALLER, owner_of

logger = logging.getLogger(__name__)

# ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Refuse = Callable[[str, Exception], Response]
"""Function from a path and an error to the error response, in the format of the path's protocol binding."""


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
            response = self._refuse(route_path(scope), to_wire(error))
            response.headers["Cache-Control"] = "no-store"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _count(self, owner: str) -> None:
        wait = await self._counters.take(owner, per_minute=self._per_minute)
        if wait > 0:
            seconds = math.ceil(wait)
            raise TooManyRequests(
                f"You may send {self._per_minute} requests a minute. Try again in {seconds} s.", seconds=seconds
            )


# ── Streams ───────────────────────────────────────────────────────────────────────────────────────────────────────────

MAX_STREAM = timedelta(minutes=15)
"""Time after which a stream without a deadline no longer counts as open, equal to Lambda's maximum duration."""

RETRY_SECONDS = 10
"""Value of `Retry-After` for a refused stream. The server does not know the end of the other streams."""


class StreamLimits:
    """Limits of the open streams of each caller. A stream occupies a Lambda execution environment until it ends.

    A blocking send also occupies an execution environment, so it counts as a stream while it waits.
    """

    def __init__(self, counters: RateLimits, limits: Limits, clock: Clock) -> None:
        self._counters, self._limits, self._clock = counters, limits, clock

    @asynccontextmanager
    async def limited(self, call: CallContext, task_id: str) -> AsyncIterator[None]:
        """Count a stream of the caller during the `async with` block. Raises TooManyRequests or StoreError."""
        until = call.deadline.until or self._clock.now() + MAX_STREAM
        stream = OpenStream(uuid4().hex, task_id, until)
        if not await self._counters.open_stream(call.caller, stream, self._limits):
            raise TooManyRequests(
                "You have the maximum number of open streams and waiting sends, in total or for this task. Close one, get the "
                "task instead, or send with returnImmediately.",
                seconds=RETRY_SECONDS,
            )
        try:
            yield
        finally:
            try:
                await self._counters.close_stream(call.caller, stream)
            except StoreError as error:
                # Only log the error, because the count of this stream expires at `until`.
                logger.warning("The end of a stream was not counted: %s", error)
