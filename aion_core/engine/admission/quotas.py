"""Limit of the number of open tasks per caller.

The end of a task does not lower the count, because that would cost one more write per task. When the limit is reached,
the next new message removes from the count ended tasks, and tasks of agents that are no longer in aion.yaml.
"""

import asyncio
import logging
from collections.abc import Container, Sequence

from aion_core.clock import Clock
from aion_core.engine.admission.messages import NewTask
from aion_core.engine.admission.store import MessageStore
from aion_core.engine.limits import open_tasks
from aion_core.engine.limits.limits import OpenTask
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.records import Head
from aion_core.engine.task import states
from aion_core.errors import StoreError, TooManyRequests

logger = logging.getLogger(__name__)

TASK_RETRY_AFTER_SECONDS = 10
"""Retry-After of a refused message, a fixed time: the end of a running task cannot be predicted."""


class OpenTasks:
    """Counter of each caller's open tasks. It refuses new tasks at the limit."""

    def __init__(
        self, counts: RateLimits, store: MessageStore, clock: Clock, *, most: int, agents: Container[str] | None = None
    ) -> None:
        """Count only tasks of these agents, by id: a caller cannot end a task of a removed agent. None means all."""
        self._counts, self._store, self._clock, self._most, self._agents = counts, store, clock, most, agents

    async def admit(self, caller: str, new: NewTask) -> OpenTask:
        """Count a task before it is created. Raises TooManyRequests at the limit.

        A repeated message and an answer to an interrupted task are always admitted, because they create no task.
        """
        now = self._clock.now()
        task = OpenTask(new.key, now.replace(microsecond=now.microsecond // 1000 * 1000))
        counted = await self._counts.count_task(caller, task, most=self._most)
        if not counted:
            return task
        counted = list(counted)
        heads = await asyncio.gather(*(self._store.head(each.key) for each in counted))
        ended = [
            each
            for each, head in zip(counted, heads, strict=True)
            if open_tasks.has_ended(each, head, now) or (head and not self._is_served(head))
        ]
        if ended:
            await self._counts.forget_tasks(caller, ended)
            if not await self._counts.count_task(caller, task, most=self._most):
                return task
        if not await self._creates_none(new, heads):
            raise TooManyRequests(
                f"You have {self._most} open tasks, the maximum. Wait until one ends, send its required input with its "
                "taskId, or cancel it.",
                seconds=TASK_RETRY_AFTER_SECONDS,
            )
        return task

    async def forget(self, caller: str, task: OpenTask) -> None:
        """Remove a task from the count if it was not created."""
        try:
            await self._counts.forget_tasks(caller, [task])
        except StoreError as error:
            # Only log the error: after a minute, the next message at the limit removes the missing task from the count.
            logger.warning("A task that was not created is still counted: %s", error)

    def _is_served(self, head: Head) -> bool:
        return self._agents is None or head.context.agent in self._agents

    async def _creates_none(self, new: NewTask, heads: Sequence[Head | None]) -> bool:
        if any(head and head.context == new.context and head.state in states.INTERRUPTED for head in heads):
            return True
        known = await self._store.known(
            new.context, new.message_id, new.content_hash, idempotency_key=new.idempotency_key
        )
        return known is not None
