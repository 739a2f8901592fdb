"""Schedule → whoever has not kept a promise is reminded of it."""

import asyncio
import logging
from typing import Any

from aion_core.bootstrap import build_operations, build_sweep

logger = logging.getLogger(__name__)

operations = build_operations()
sweep = build_sweep(operations=operations)


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """Ring for what is overdue; return how much was found, and for how much was rung."""
    with operations.invocation(context):
        swept = asyncio.run(sweep.once())
        told = {"found": swept.found, "rung": swept.enqueued}
        logger.info("swept", extra=told)
        return told
