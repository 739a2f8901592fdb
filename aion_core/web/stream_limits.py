"""How many streams a caller has open: each holds an execution environment until it ends."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from aion_core.errors import StoreError, TooManyRequests
from aion_core.ports import Clock, Limits, OpenStream, RateLimits
from aion_core.tasks.call import Call

logger = logging.getLogger(__name__)

LONGEST = timedelta(minutes=15)
"""How long a stream counts where its process does not say until when it lives: as long as Lambda lets any."""

RETRY_SECONDS = 10
"""When to try again: nobody knows when one of the others ends."""


class StreamLimits:
    """Counts the streams of each caller."""

    def __init__(self, counts: RateLimits, limits: Limits, clock: Clock) -> None:
        self._counts, self._limits, self._clock = counts, limits, clock

    @asynccontextmanager
    async def counted(self, call: Call, task_id: str) -> AsyncIterator[None]:
        """Count a stream of the call's until the block ends; raises TooManyRequests, and StoreError."""
        until = call.time_up.until or self._clock.now() + LONGEST
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
