"""Limit of each caller's open streams."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from aion_core.clock import Clock
from aion_core.engine.call import CallContext
from aion_core.engine.limits.limits import Limits, OpenStream
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.errors import StoreError, TooManyRequests

logger = logging.getLogger(__name__)

MAX_STREAM = timedelta(minutes=15)
"""Time after which a stream without a deadline no longer counts as open, equal to Lambda's maximum duration."""

STREAM_RETRY_AFTER_SECONDS = 10
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
                seconds=STREAM_RETRY_AFTER_SECONDS,
            )
        try:
            yield
        finally:
            try:
                await self._counters.close_stream(call.caller, stream)
            except StoreError as error:
                # Only log the error, because the count of this stream expires at `until`.
                logger.warning("The end of a stream was not counted: %s", error)
