"""Wake-up messages for contexts with a waiting turn, and for push delivery after a commit.

A message may be lost. The work of each message also has a timer in the table, found later by the sweep.
"""

import asyncio
import logging

from aion_core.errors import StoreError
from aion_core.ports import ContextKey, Head, PushQueue, PushWakeUp, TaskKey, TurnStarted, WakeUp, WorkQueue
from aion_core.protocol.types import Event
from aion_core.tasks import heads

logger = logging.getLogger(__name__)

ENQUEUE_SECONDS = 1.0
"""Longest wait for the push queue at the end of a turn, in seconds."""


async def wake(work_queue: WorkQueue, context: ContextKey, *, delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the context. Log an error of the queue instead of raising it."""
    try:
        await work_queue.enqueue(WakeUp(context), delay=delay)
    except StoreError as error:
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"context_id": context.context_id})


async def wake_delivery(work_queue: PushQueue, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the push delivery of a task. Log an error of the queue instead of raising it."""
    try:
        await work_queue.enqueue(wake_up, delay=delay)
    except StoreError as error:
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"task_id": wake_up.task.task_id})


class CommitNotifier:
    """Notifier of push delivery, called by the task store after each commit of a task.

    It enqueues a wake-up message if the task has push subscribers. It enqueues a task's messages one after the other:
    events recorded meanwhile share the next message.
    """

    def __init__(self, work_queue: PushQueue | None = None) -> None:
        """Without a queue, as in deployments without push notifications, it enqueues no message."""
        self._work_queue = work_queue
        self._enqueuing: dict[TaskKey, asyncio.Task[None]] = {}
        self._newest: dict[TaskKey, int] = {}

    async def committed(self, head: Head) -> None:
        """Enqueue a message for a committed create, follow-up, finish or cancel, and wait up to ENQUEUE_SECONDS."""
        if head.push_events is not None:
            self._enqueue_beside(head)
            await self.settle(head.key)

    async def begun(self, begun: TurnStarted) -> None:
        """Enqueue a message if the client's message is the task's newest event: the turn may have recorded it."""
        if begun.lease.turn.message_generation == begun.head.generation:
            await self.committed(begun.head)

    def appended(self, head: Head, event: Event) -> None:
        """Enqueue a message for an appended event in the background, if a push subscriber receives the event."""
        if heads.has_subscriber_for(head, event):
            self._enqueue_beside(head)

    async def settle(self, task: TaskKey) -> None:
        """Wait up to ENQUEUE_SECONDS for the task's messages, then drop the rest. Call it before leaving a turn."""
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
