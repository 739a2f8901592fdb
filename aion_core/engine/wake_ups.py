"""Wake-up messages: enqueued after a commit, for a turn that waits or an event that a webhook wants."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from aion_core import log
from aion_core.engine.outcomes import TurnStarted, TurnSuspended
from aion_core.engine.queues import PushQueue, PushWakeUp, WakeUp, WorkQueue
from aion_core.engine.records import Head
from aion_core.engine.task.subscribers import has_subscriber_for
from aion_core.errors import StoreError
from aion_core.protocol.types import Event
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import milliseconds

logger = logging.getLogger(__name__)

ENQUEUE_SECONDS = 1.0
"""Longest wait for the push queue at the end of a turn, in seconds."""


async def wake(work_queue: WorkQueue, context: ContextKey, *, canceled_task: str = "", delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the context, or for the agent and the remote calls of a canceled task.

    Log errors of the queue, but do not raise them.
    """
    await _enqueue(work_queue, WakeUp(context, task_id=canceled_task), delay)


async def wake_to_look(work_queue: WorkQueue, context: ContextKey, suspended: TurnSuspended, now: datetime) -> None:
    """Enqueue the wake-up message of the next look at the context's suspended turn. Log errors of the queue.

    If the message is lost, the sweep finds the context's timer soon after the time of the look.
    """
    # Looks for whose callbacks nobody has to wait come often, so that their messages spare the read of the turn.
    often = suspended.wait.calls and not suspended.wait.expects_callbacks
    since = suspended.wait.since if often else 0
    wake_up = WakeUp(context, look=milliseconds(suspended.look_at), since=since)
    await _enqueue(work_queue, wake_up, max(0.0, (suspended.look_at - now).total_seconds()))


async def _enqueue(work_queue: WorkQueue, wake_up: WakeUp, delay: float) -> None:
    try:
        await work_queue.enqueue(wake_up, delay=delay)
    except StoreError as error:
        context_id = wake_up.context.context_id
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"context_id": context_id})


async def wake_delivery(work_queue: PushQueue, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
    """Enqueue a wake-up message for the push delivery of a task. Log errors of the queue, but do not raise them.

    The message has the trace of the surrounding log lines, so that the posts continue it.
    """
    traced = replace(wake_up, traceparent=log.label("traceparent"), tracestate=log.label("tracestate"))
    try:
        await work_queue.enqueue(traced, delay=delay)
    except StoreError as error:
        logger.warning("A wake-up message could not be enqueued: %s", error, extra={"task_id": wake_up.task.task_id})


class CommitNotifier:
    """Notifier of push delivery, called by the task store after each commit of a task.

    It enqueues a wake-up message if the task has push subscribers. It enqueues the messages of a task one at a time.
    Events recorded in the meantime share the next message.
    """

    def __init__(self, work_queue: PushQueue | None = None) -> None:
        """Without a queue (a deployment without push notifications), the notifier enqueues no messages."""
        self._work_queue = work_queue
        self._enqueuing: dict[TaskKey, asyncio.Task[None]] = {}
        self._newest: dict[TaskKey, int] = {}

    async def committed(self, head: Head) -> None:
        """Enqueue a message after a create, follow-up, finish or cancel. Wait up to ENQUEUE_SECONDS for the queue."""
        if head.push_events is not None:
            self._enqueue_beside(head)
            await self.settle(head.key)

    async def begun(self, begun: TurnStarted) -> None:
        """Enqueue a message if the newest event has the client's message, because `begin` may have recorded it."""
        if begun.lease.turn.message_generation == begun.head.generation:
            await self.committed(begun.head)

    def appended(self, head: Head, events: Sequence[Event]) -> None:
        """Enqueue a message in the background if a push subscriber receives one of the appended events."""
        if head.push_events is not None and any(has_subscriber_for(head, event) for event in events):
            self._enqueue_beside(head)

    async def settle(self, task: TaskKey) -> None:
        """Wait up to ENQUEUE_SECONDS for the task's messages, then drop the rest. Call it at a turn's end."""
        enqueuing = self._enqueuing.get(task)
        if enqueuing is not None:
            await asyncio.wait({enqueuing}, timeout=ENQUEUE_SECONDS)
            # Drop unsent messages, because Lambda freezes the process soon. Timers in the table replace the messages.
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
