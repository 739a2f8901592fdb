"""Wakes whoever is to look after a context: a bell that cannot be rung costs time, and no task."""

import logging

from aion_core.errors import StoreError
from aion_core.ports import Bell, Bells, ContextKey

logger = logging.getLogger(__name__)


async def wake(bells: Bells, context: ContextKey, *, delay: float = 0.0) -> None:
    """Ring for the context; what is due there is found by its due time, should that fail."""
    try:
        await bells.ring(Bell(context), delay=delay)
    except StoreError as error:
        logger.warning("A bell could not be rung: %s", error, extra={"context_id": context.context_id})
