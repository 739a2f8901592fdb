"""Limits of each caller: requests a minute, and open streams."""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.errors import AionError, StoreError, TooManyRequests
from aion_core.ports import Clock, Limits, OpenStream, RateLimits
from aion_core.protocol.errors import to_wire
from aion_core.tasks.call import CallContext
from aion_core.web.middleware import route_path
from aion_core.web.request_context import CALLER, owner_of

logger = logging.getLogger(__name__)

# ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Refuse = Callable[[str, Exception], Response]
"""Returns the refusal of a request to the path, as the binding has it whose path it is."""


class RateLimited:
    """Lets as many requests of each caller through as a minute has; decides before a body is read.

    Public paths are not counted: their callers are not authenticated.
    """

    def __init__(
        self, app: ASGIApp, counts: RateLimits, *, per_minute: int, public: Iterable[str], refuse: Refuse
    ) -> None:
        self._app, self._counts, self._per_minute, self._refuse = app, counts, per_minute, refuse
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
        if scope["type"] != "http" or route_path(scope) in self._public:
            await self._app(scope, receive, send)
            return
        try:
            await self._take(owner_of(scope.get(CALLER)))
        except AionError as error:
            response = self._refuse(route_path(scope), to_wire(error))
            response.headers["Cache-Control"] = "no-store"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _take(self, owner: str) -> None:
        wait = await self._counts.take(owner, per_minute=self._per_minute)
        if wait > 0:
            seconds = math.ceil(wait)
            raise TooManyRequests(
                f"You may send {self._per_minute} requests a minute. Try again in {seconds} s.", seconds=seconds
            )


# ── Streams ───────────────────────────────────────────────────────────────────────────────────────────────────────────

LONGEST = timedelta(minutes=15)
"""How long a stream counts where its process does not say until when it lives: as long as Lambda lets any."""

RETRY_SECONDS = 10
"""When to try again: nobody knows when one of the others ends."""


class StreamLimits:
    """Counts the open streams of each caller: each holds an execution environment until it ends."""

    def __init__(self, counts: RateLimits, limits: Limits, clock: Clock) -> None:
        self._counts, self._limits, self._clock = counts, limits, clock

    @asynccontextmanager
    async def counted(self, call: CallContext, task_id: str) -> AsyncIterator[None]:
        """Count a stream of the call's until the block ends; raises TooManyRequests, and StoreError."""
        until = call.deadline.until or self._clock.now() + LONGEST
        stream = OpenStream(uuid4().hex, task_id, until)
        if not await self._counts.open_stream(call.caller, stream, self._limits):
            raise TooManyRequests(
                "As many streams are open as you may have, in all or of this task. Close one, or ask for the task.",
                seconds=RETRY_SECONDS,
            )
        try:
            yield
        finally:
            try:
                await self._counts.close_stream(call.caller, stream.id)
            except StoreError as error:
                # It counts no more once this process could not serve it any longer.
                logger.warning("A stream that has ended is counted on: %s", error)
