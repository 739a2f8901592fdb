"""Limit of open tasks: a message that would create one more than a caller may have is refused.

A task that ends is not counted down, which would cost every task a write more. The message that finds no room looks
which tasks have ended.
"""

import asyncio
import logging
from collections.abc import Sequence

from aion_core.errors import StoreError, TooManyRequests
from aion_core.ports import Clock, Head, NewTask, OpenTask, RateLimits, TaskStore
from aion_core.tasks import lifecycle, limits

logger = logging.getLogger(__name__)

RETRY_SECONDS = 10
"""When to try again: the end of another task is not known."""


class OpenTasks:
    """Counts the tasks of each caller."""

    def __init__(self, counts: RateLimits, store: TaskStore, clock: Clock, *, most: int) -> None:
        self._counts, self._store, self._clock, self._most = counts, store, clock, most

    async def admit(self, caller: str, new: NewTask) -> OpenTask:
        """Count a task that is about to be created; raises TooManyRequests if the caller has as many as may be open.

        A message that creates no task is never refused: a repeat, or the input that a task of its context requires.
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
                f"You have {self._most} tasks that have not ended, as many as you may have. Wait for one, answer what it "
                "asks with its taskId, or cancel it.",
                seconds=RETRY_SECONDS,
            )
        return task

    async def forget(self, caller: str, task: OpenTask) -> None:
        """Count a task no more that was not created after all."""
        try:
            await self._counts.forget_tasks(caller, [task])
        except StoreError as error:
            # A later message finds that it is missing, a minute from now.
            logger.warning("A task that was not created is still counted: %s", error)

    async def _creates_none(self, new: NewTask, heads: Sequence[Head | None]) -> bool:
        if any(head and head.context == new.context and head.state in lifecycle.INTERRUPTED for head in heads):
            return True
        known = await self._store.known(
            new.context, new.message_id, new.content_hash, idempotency_key=new.idempotency_key
        )
        return known is not None
