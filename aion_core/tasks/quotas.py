"""Limit of the number of open tasks per caller.

The end of a task does not lower the count, since that would cost each task one more write. When the limit is reached,
the next new message uncounts ended tasks.
"""

import asyncio
import logging
from collections.abc import Sequence

from aion_core.errors import StoreError, TooManyRequests
from aion_core.ports import Clock, Head, NewTask, OpenTask, RateLimits, TaskStore
from aion_core.tasks import lifecycle, limits

logger = logging.getLogger(__name__)

RETRY_SECONDS = 10
"""Retry-After of a refused message, a fixed time: the end of a running task cannot be predicted."""


class OpenTasks:
    """Counter of each caller's open tasks, to refuse new tasks at the limit."""

    def __init__(self, counts: RateLimits, store: TaskStore, clock: Clock, *, most: int) -> None:
        self._counts, self._store, self._clock, self._most = counts, store, clock, most

    async def admit(self, caller: str, new: NewTask) -> OpenTask:
        """Count a task before its creation; raises TooManyRequests at the limit.

        A message that creates no task is never refused: a repeated message, or the required input of a task in the
        context.
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
        """Uncount a task that was counted but not created."""
        try:
            await self._counts.forget_tasks(caller, [task])
        except StoreError as error:
            # A message at the limit uncounts the missing task when it is older than a minute.
            logger.warning("A task that was not created is still counted: %s", error)

    async def _creates_none(self, new: NewTask, heads: Sequence[Head | None]) -> bool:
        if any(head and head.context == new.context and head.state in lifecycle.INTERRUPTED for head in heads):
            return True
        known = await self._store.known(
            new.context, new.message_id, new.content_hash, idempotency_key=new.idempotency_key
        )
        return known is not None
