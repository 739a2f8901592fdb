"""Limit of open tasks per caller.

The end of a task does not lower the count: that would cost each task one more write. At the limit, the next new message
looks for ended tasks.
"""

import asyncio
import logging
from collections.abc import Sequence

from aion_core.errors import StoreError, TooManyRequests
from aion_core.ports import Clock, Head, NewTask, OpenTask, RateLimits, TaskStore
from aion_core.tasks import lifecycle, limits

logger = logging.getLogger(__name__)

RETRY_SECONDS = 10
"""Retry-After of a refused message: nobody knows the end of another task."""


class OpenTasks:
    """Counter of the open tasks of each caller."""

    def __init__(self, counts: RateLimits, store: TaskStore, clock: Clock, *, most: int) -> None:
        self._counts, self._store, self._clock, self._most = counts, store, clock, most

    async def admit(self, caller: str, new: NewTask) -> OpenTask:
        """Count a task before its creation; raises TooManyRequests at the limit.

        Messages without a new task are never refused: a repeat, or the required input of a task in the context.
        """
        now = self._clock.now()
        task = OpenTask(new.key, now.replace(microsecond=now.microsecond // 1000 * 1000))
        counted = await self._counts.count_task(caller, task, most=self._most)
        if not counted:
            return task
        counted = list(counted)
        heads = await asyncio.gather(*(self._store.head(each.key) for each in counted))
        ended = [each for each, head in zip(counted, heads, strict=True) if limits.has_ended(each, head, now)]
        if ended:
            await self._counts.forget_tasks(caller, ended)
            if not await self._counts.count_task(caller, task, most=self._most):
                return task
        if not await self._creates_none(new, heads):
            raise TooManyRequests(
                f"You have {self._most} open tasks, the maximum. Wait until one ends, send its required input with its "
                "taskId, or cancel it.",
                seconds=RETRY_SECONDS,
            )
        return task

    async def forget(self, caller: str, task: OpenTask) -> None:
        """Uncount a task after its creation failed."""
        try:
            await self._counts.forget_tasks(caller, [task])
        except StoreError as error:
            # After one minute, a later message at the limit uncounts the missing task.
            logger.warning("A task that was not created is still counted: %s", error)

    async def _creates_none(self, new: NewTask, heads: Sequence[Head | None]) -> bool:
        if any(head and head.context == new.context and head.state in lifecycle.INTERRUPTED for head in heads):
            return True
        known = await self._store.known(
            new.context, new.message_id, new.content_hash, idempotency_key=new.idempotency_key
        )
        return known is not None
