"""How many tasks of a caller's may be open at once: with as many, a message that would begin one more is refused.

A task that ends is not counted down, which would cost every task a write more. It is found to have ended by the message
that finds no room.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from aion_core.errors import StoreError, TooManyRequests
from aion_core.ports import Clock, Head, NewTask, OpenTask, RateLimits, TaskStore
from aion_core.tasks import lifecycle

logger = logging.getLogger(__name__)

BEING_MADE = timedelta(minutes=1)
"""How long a task that was counted may be missing: whoever counted it is about to make it, or never will."""

RETRY_SECONDS = 10
"""When to try again: nobody knows when one of the others ends."""


class OpenTasks:
    """Counts the tasks of each caller."""

    def __init__(self, counts: RateLimits, store: TaskStore, clock: Clock, *, most: int) -> None:
        self._counts, self._store, self._clock, self._most = counts, store, clock, most

    async def admit(self, caller: str, new: NewTask) -> OpenTask:
        """Count a task that is about to be made; raises TooManyRequests where the caller has as many as may be.

        A message that makes none is never refused: a repeat, or the answer to what a task of its context asks.
        """
        now = self._clock.now()
        task = OpenTask(new.key, now.replace(microsecond=now.microsecond // 1000 * 1000))
        counted = await self._counts.count_task(caller, task, most=self._most)
        if not counted:
            return task
        counted = list(counted)
        heads = await asyncio.gather(*(self._store.head(each.key) for each in counted))
        over = [each for each, head in zip(counted, heads, strict=True) if self._is_over(each, head)]
        if over:
            await self._counts.forget_tasks(caller, over)
            if not await self._counts.count_task(caller, task, most=self._most):
                return task
        if not await self._makes_none(new, heads):
            raise TooManyRequests(
                f"You have {self._most} tasks that have not ended, as many as you may have. Wait for one, answer what it "
                "asks with its taskId, or cancel it.",
                seconds=RETRY_SECONDS,
            )
        return task

    async def forget(self, caller: str, task: OpenTask) -> None:
        """Count a task no more that was not made after all."""
        try:
            await self._counts.forget_tasks(caller, [task])
        except StoreError as error:
            # It is found to be missing, a minute from now.
            logger.warning("A task that was not made is counted on: %s", error)

    def _is_over(self, task: OpenTask, head: Head | None) -> bool:
        if head is None:
            return self._clock.now() - task.since > BEING_MADE
        return head.state in lifecycle.TERMINAL

    async def _makes_none(self, new: NewTask, heads: Sequence[Head | None]) -> bool:
        if any(head and head.context == new.context and head.state in lifecycle.INTERRUPTED for head in heads):
            return True
        known = await self._store.known(
            new.context, new.message_id, new.content_hash, idempotency_key=new.idempotency_key
        )
        return known is not None
