"""Wake-up messages: for a context with a waiting turn, and for push delivery after a commit.

A message may be lost. Each has a timer in the table; the sweep finds it later.
"""

import asyncio
import logging

from aion_core.errors import StoreError
from aion_core.ports import ContextKey, Head, PushQueue, PushWakeUp, TaskKey, TurnStarted, WakeUp, WorkQueue
from aion_core.protocol.types import Event
from aion_core.tasks import heads

logger = logging.getLogger(__name__)

ENQUEUE_SECONDS = 1.0
"""Longest wait for the queue at the end of a turn."""


async def wake(work_queue: WorkQueue, context: ContextKey, *, delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the context; a refusal is logged."""
    try:
        await work_queue.enqueue(WakeUp(context), delay=delay)
    except StoreError as error:
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"context_id": context.context_id})


async def wake_delivery(work_queue: PushQueue, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the push delivery of a task; a refusal is logged."""
    try:
        await work_queue.enqueue(wake_up, delay=delay)
    except StoreError as error:
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"task_id": wake_up.task.task_id})


class CommitNotifier:
    """Wakes push delivery after each commit of a task that has subscribers; the task store calls it.

    The messages of a task are enqueued one after the other: events recorded while one is on its way share the next.
    """

    def __init__(self, work_queue: PushQueue | None = None) -> None:
        """Deployments without push notifications have no queue: nothing is enqueued."""
        self._work_queue = work_queue
        self._enqueuing: dict[TaskKey, asyncio.Task[None]] = {}
        self._newest: dict[TaskKey, int] = {}

    async def committed(self, head: Head) -> None:
        """Enqueue for the newest event of a create, follow-up, finish or cancel; wait up to ENQUEUE_SECONDS for it."""
        if head.push_events is not None:
            self._enqueue_beside(head)
            await self.settle(head.key)

    async def begun(self, begun: TurnStarted) -> None:
        """Enqueue for the turn's message if it is the newest event: the begin may have recorded it."""
        if begun.lease.turn.message_generation == begun.head.generation:
            await self.committed(begun.head)

    def appended(self, head: Head, event: Event) -> None:
        """Enqueue for an appended event in the background."""
        if heads.has_subscriber_for(head, event):
            self._enqueue_beside(head)

    async def settle(self, task: TaskKey) -> None:
        """Wait up to ENQUEUE_SECONDS for the task's messages, then drop the others; call it before leaving a turn."""
        enqueuing = self._enqueuing.get(task)
        if enqueuing is not None:
            await asyncio.wait({enqueuing}, timeout=ENQUEUE_SECONDS)
            # Lambda freezes the process after its response; timers replace the dropped messages.
            enqueuing.cancel()

    def _enqueue_beside(self, head: Head) -> None:
        if self._work_queue is None:
            return
        self._newest[head.key] = head.generation
        if head.key not in self._enqueuing:
            self._enqueuing[head.key] = asyncio.create_task(self._enqueue(head.key, self._work_queue))

    async def _enqueue(self, task: TaskKey, work_queue: PushQueue) -> None:
        try:
            while (newest := self._newest.pop(task, None)) is not None:
                await wake_delivery(work_queue, PushWakeUp(task, newest))
        finally:
            self._enqueuing.pop(task, None)
            self._newest.pop(task, None)
