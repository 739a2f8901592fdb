"""Wake-up messages: for a context whose turn is to run, and for the push delivery of a commit.

No message is promised to arrive. A timer of the table finds whatever a lost one would have woken, only later.
"""

import asyncio
import logging

from aion_core.errors import StoreError
from aion_core.ports import ContextKey, Head, PushQueue, PushWakeUp, TaskKey, TurnStarted, WakeUp, WorkQueue
from aion_core.protocol.types import Event
from aion_core.tasks import heads

logger = logging.getLogger(__name__)

ENQUEUE_SECONDS = 1.0
"""How long the end of a turn waits until the queue has taken its messages."""


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
        """Without `work_queue`, which deployments without push notifications do not have, nothing is enqueued."""
        self._work_queue = work_queue
        self._enqueuing: dict[TaskKey, asyncio.Task[None]] = {}
        self._newest: dict[TaskKey, int] = {}

    async def committed(self, head: Head) -> None:
        """Enqueue for the newest event of a create, follow-up, finish or cancel; wait a moment until that is done."""
        if head.push_events is not None:
            self._enqueue_beside(head)
            await self.settle(head.key)

    async def begun(self, begun: TurnStarted) -> None:
        """Enqueue for the message of the turn if it is the newest event: the begin may have recorded it."""
        if begun.lease.turn.message_generation == begun.head.generation:
            await self.committed(begun.head)

    def appended(self, head: Head, event: Event) -> None:
        """Enqueue for an appended event, without waiting: beside whatever the turn does next."""
        if heads.has_subscriber_for(head, event):
            self._enqueue_beside(head)

    async def settle(self, task: TaskKey) -> None:
        """Wait a moment until the task's messages are enqueued, and drop those that are not: before a turn is left."""
        enqueuing = self._enqueuing.get(task)
        if enqueuing is not None:
            await asyncio.wait({enqueuing}, timeout=ENQUEUE_SECONDS)
            # Nothing relies on running after the answer, where Lambda freezes the process: a timer finds the rest.
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
