"""Delivery of push notifications: posts each config's undelivered events in order, under a claim.

No event is lost. The commit of an event with subscribers sets the event's timer. The timer stays until each config has
passed the event or has its own timer. A claim sets the config's timer to the end of the claim; a failure sets it to the
next attempt. The config's timer stays until the config has passed all events read after the claim.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from aion_core.clock import Clock
from aion_core.engine.delivery import readiness
from aion_core.engine.delivery.records import Delivery
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.queues import PushQueue, PushWakeUp
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.wake_ups import wake_delivery
from aion_core.log import note
from aion_core.push import retry_delay
from aion_core.push.attempts import DeliveryAttempts
from aion_core.push.client import POST_SECONDS, WebhookClient
from aion_core.push.poster import EXIT_SECONDS, EventPoster, labels_of
from aion_core.push.request import Render
from aion_core.table.keys import TaskKey
from aion_core.telemetry import Metrics, NoopTraces, NullMetrics, Traces

logger = logging.getLogger(__name__)

SOON_SECONDS = 10.0
"""A wake-up message may arrive this long before its attempt is due, since clocks differ."""

SHARE_SECONDS = 60.0
"""Time for handling one wake-up message. Then a new message is enqueued behind the messages of other tasks."""

ROUNDS = 50
"""Number of delivery rounds for one wake-up message before a new message is enqueued."""


class PushDelivery:
    """Handler of the push queue's wake-up messages. It posts events to webhooks."""

    def __init__(
        self,
        tasks: StoredTasks,
        store: DeliveryStore,
        queue: PushQueue,
        webhooks: WebhookClient,
        render: Render,
        clock: Clock,
        *,
        chance: Callable[[], float] = random.random,
        retry_seconds: Sequence[float] = retry_delay.RETRY_SECONDS,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        """`render` makes the HTTP requests. `chance` returns random numbers (0 to 1) for the jitter of retries.

        `stops` returns True once this process is stopping: no further post begins then.
        """
        self._tasks, self._store, self._work_queue, self._clock = tasks, store, queue, clock
        self._poster = EventPoster(
            tasks,
            store,
            queue,
            DeliveryAttempts(tasks, webhooks, render, clock, traces or NoopTraces()),
            clock,
            chance=chance,
            retry_seconds=retry_seconds,
            metrics=metrics or NullMetrics(),
            stops=stops,
        )

    async def deliver(self, wake_up: PushWakeUp, *, until: datetime | None = None) -> None:
        """Post the undelivered events of the wake-up message's task to its webhooks.

        `until` is the end of this process. If the time is too short for all events, enqueue a new message. Raises
        StoreError if the table cannot be read: the queue must redeliver the message.
        """
        if wake_up.traceparent:
            note(traceparent=wake_up.traceparent, tracestate=wake_up.tracestate)
        task, timed = wake_up.task, {wake_up.generation} if wake_up.generation else set[int]()
        share = self._clock.now() + timedelta(seconds=SHARE_SECONDS + POST_SECONDS + EXIT_SECONDS)
        until = min(until, share) if until is not None else share
        for number in range(ROUNDS):
            head = await self._tasks.head(task)
            deliveries = await self._store.deliveries(task)
            if head is None:
                await self._clear_expired(task, deliveries, timed)
                return
            note(context_id=head.context.context_id, agent=head.context.agent)
            now = self._clock.now()
            ready = [delivery for delivery in deliveries if readiness.is_ready(delivery, head.generation, now)]
            if not ready:
                await self._clear_timers(task, deliveries, timed)
                if not deliveries and head.push_events is not None:
                    await self._store.clear_subscribers(head)
                if not number:
                    await self._enqueue_retry(task, deliveries, now)
                return
            if not self._poster.has_time(until):
                break
            # Deliver to all webhooks concurrently, because a slow receiver must not delay the others.
            ended = await asyncio.gather(
                *(self._poster.post_to(delivery, head.generation, timed, until) for delivery in ready),
                return_exceptions=True,
            )
            for error in ended:
                if isinstance(error, BaseException):
                    raise error
        await wake_delivery(self._work_queue, PushWakeUp(task))

    async def _clear_timers(self, task: TaskKey, deliveries: Sequence[Delivery], timed: set[int]) -> None:
        """Remove the timers of the events in `timed` that no config of the task needs any more.

        Each event was recorded before the deliveries were read. So a config with a timer finds the event when it reads
        the log later.
        """
        for generation in sorted(timed):
            if all(readiness.covers(delivery, generation) for delivery in deliveries):
                await self._store.clear(task, generation)

    async def _clear_expired(self, task: TaskKey, deliveries: Sequence[Delivery], timed: set[int]) -> None:
        """Remove all push timers of an expired task: a timer of a failed config or an event may outlive the task."""
        for delivery in deliveries:
            if delivery.due_at is None or readiness.is_claimed(delivery, self._clock.now()):
                continue
            logger.error("The task of a push config has expired before its delivery.", extra=labels_of(delivery))
            claim = await self._store.claim(delivery, until=self._poster.claimed_until())
            if claim is not None:
                await self._store.disable(claim, failure="the task has expired")
        for generation in timed:
            await self._store.clear(task, generation)

    async def _enqueue_retry(self, task: TaskKey, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Enqueue a wake-up message for a retry that is due in a few seconds.

        The message for this retry has arrived early by this process's clock, which may be behind the sender's clock.
        """
        waits = [
            (delivery.next_at - now).total_seconds()
            for delivery in deliveries
            if delivery.next_at is not None and not delivery.disabled
        ]
        if waits and 0 < min(waits) <= SOON_SECONDS:
            await wake_delivery(self._work_queue, PushWakeUp(task), delay=min(waits))
