"""Turns that requests have started in this process."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

CANCEL_SECONDS = 0.5
"""Maximum wait for the end of canceled turns."""


class BackgroundTurns(set[asyncio.Task[None]]):
    """Turns that a request has started in this process. They may run longer than the request."""

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a turn's coroutine in an asyncio task, and log its failure."""
        task = asyncio.ensure_future(coroutine)
        self.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "A background task failed; the lease of its turn runs out, and the turn runs again.", exc_info=error
            )

    async def wait(self) -> None:
        """Wait until all turns have ended, including turns started during the wait."""
        while self:
            await asyncio.wait(set(self))

    async def cancel(self) -> None:
        """Cancel the turns, and wait shortly until they have recorded their metrics."""
        for task in self:
            task.cancel()
        if self:
            await asyncio.wait(set(self), timeout=CANCEL_SECONDS)
