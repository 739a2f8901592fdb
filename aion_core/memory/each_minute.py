"""Calls the sweep of a process that keeps everything in memory: the twin of the schedule that calls SweepFunction."""

import logging
from collections.abc import Awaitable, Callable

from aion_core.ports import Clock

logger = logging.getLogger(__name__)

SECONDS = 60.0
"""As the template's schedule has it."""


async def each_minute(sweep: Callable[[], Awaitable[object]], clock: Clock) -> None:
    """Call it for as long as this is not cancelled; what it raises is logged, and the next minute is another try."""
    while True:
        await clock.sleep(SECONDS)
        try:
            await sweep()
        except Exception:
            logger.exception("A sweep has failed.")
