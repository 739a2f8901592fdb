"""Wakes whoever is to look after a context, or a task's notifications: a bell that cannot be rung costs only time."""

import logging

from aion_core.errors import StoreError
from aion_core.ports import Bell, Bells, ContextKey, PushBell, PushBells

logger = logging.getLogger(__name__)


async def wake(bells: Bells, context: ContextKey, *, delay: float = 0.0) -> None:
    """Ring for the context; what is due there is found by its due time, should that fail."""
    try:
        await bells.ring(Bell(context), delay=delay)
    except StoreError as error:
        logger.warning("A bell could not be rung: %s", error, extra={"context_id": context.context_id})


async def wake_delivery(bells: PushBells, bell: PushBell, *, delay: float = 0.0) -> None:
    """Ring for a task's notifications; what is due of them is found by its due time, should that fail."""
    try:
        await bells.ring(bell, delay=delay)
    except StoreError as error:
        logger.warning("A bell could not be rung: %s", error, extra={"task_id": bell.task.task_id})
