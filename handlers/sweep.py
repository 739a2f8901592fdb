"""SweepFunction: enqueues wake-up messages for expired timers on a schedule."""

import asyncio
import logging
from typing import Any

from aion_core.bootstrap import build_sweep, build_telemetry

logger = logging.getLogger(__name__)

telemetry = build_telemetry()
sweep = build_sweep(telemetry=telemetry)


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """Enqueue a wake-up message for each expired timer. Return the numbers of expired timers and enqueued messages."""
    with telemetry.invocation(context):
        swept = asyncio.run(sweep.once())
        counts = {"found": swept.found, "enqueued": swept.enqueued}
        logger.info("swept", extra=counts)
        return counts
