"""SweepFunction: schedule → wake-up messages for expired timers."""

import asyncio
import logging
from typing import Any

from aion_core.bootstrap import build_operations, build_sweep

logger = logging.getLogger(__name__)

operations = build_operations()
sweep = build_sweep(operations=operations)


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """Enqueue a wake-up message for each expired timer; return the number of timers found and enqueued."""
    with operations.invocation(context):
        swept = asyncio.run(sweep.once())
        counts = {"found": swept.found, "enqueued": swept.enqueued}
        logger.info("swept", extra=counts)
        return counts
