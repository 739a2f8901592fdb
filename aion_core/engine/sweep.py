"""Sweep of expired timers (times of wake-ups). Enqueues a new wake-up message for each: the first may be lost."""

import asyncio
import logging
from collections.abc import Iterator

from msgspec import Struct

from aion_core.engine.delivery.records import ExpiredPushTimer
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.queues import PushQueue, PushWakeUp, WakeUp, WorkQueue
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.engine.turn.store import TurnStore
from aion_core.errors import StoreError
from aion_core.telemetry import Metric, Metrics, NullMetrics

logger = logging.getLogger(__name__)

AT_ONCE = 200
"""Number of contexts per sweep, the longest overdue first. The next sweep follows in a minute."""

PUSHES_AT_ONCE = 1000
"""Number of push timers per sweep. Only the sweep starts retries that lie beyond the longest delay of the queue."""

CALLS_AT_ONCE = 200
"""Number of timers of remote calls to cancel per sweep."""

PARALLEL = 16
"""Number of push timers claimed in parallel."""


class Swept(Struct, frozen=True):
    """Result of one sweep: the numbers of expired timers (times of wake-ups) and of enqueued wake-up messages."""

    found: int
    """Number of expired timers of contexts and notifications, as found in the index."""
    enqueued: int
    """Number of claimed timers for which a wake-up message was enqueued."""


class Sweep:
    """Sweep of expired timers (times of wake-ups or delivery attempts) of contexts and of push notifications."""

    def __init__(
        self,
        store: TurnStore,
        work_queue: WorkQueue,
        push_configs: DeliveryStore | None = None,
        push_queue: PushQueue | None = None,
        *,
        remote_calls: RemoteCallStore | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._remote_calls = remote_calls
        self._metrics = metrics or NullMetrics()
        self._store, self._work_queue = store, work_queue
        self._push_configs, self._push_queue = push_configs, push_queue

    async def once(self, *, at_once: int = AT_ONCE, pushes_at_once: int = PUSHES_AT_ONCE) -> Swept:
        """Claim the expired timers of contexts, notifications and remote calls, and enqueue a wake-up message for each.

        If a claim or an enqueue fails, a later sweep finds the timer again. If one kind of timer cannot be read, sweep
        the other kinds, then raise StoreError.
        """
        found, enqueued, failure = 0, 0, None
        kinds = ((self._contexts, at_once), (self._pushes, pushes_at_once), (self._cancellations, CALLS_AT_ONCE))
        for sweep, limit in kinds:
            try:
                swept = await sweep(limit)
            except StoreError as error:
                logger.warning("A part of the sweep has failed: %s", error)
                failure = failure or error
            else:
                found, enqueued = found + swept.found, enqueued + swept.enqueued
        self._metrics.count(Metric.SWEEP_ENQUEUED, enqueued)
        if failure is not None:
            raise failure
        return Swept(found, enqueued)

    async def _contexts(self, at_once: int) -> Swept:
        found = await self._store.expired_timers(limit=at_once)
        enqueued = 0
        for timer in found:
            try:
                # Claim the timer before enqueuing the message. The claim sets the timer again, so that a later sweep
                # finds the context if the message is lost.
                if await self._store.claim(timer):
                    await self._work_queue.enqueue(WakeUp(timer.context))
                    enqueued += 1
            except StoreError as error:
                logger.warning("The wake-up of an overdue context failed: %s", error)
        if enqueued:
            logger.warning("The sweep has found work: %d contexts were overdue.", enqueued)
        self._metrics.count(Metric.SWEEP_FOUND, len(found))
        return Swept(len(found), enqueued)

    async def _cancellations(self, at_once: int) -> Swept:
        overdue = await self._remote_calls.overdue(limit=at_once) if self._remote_calls is not None else ()
        for context, task in overdue:
            await self._work_queue.enqueue(WakeUp(context, task_id=task.task_id))
        return Swept(len(overdue), len(overdue))

    async def _pushes(self, at_once: int) -> Swept:
        if self._push_configs is None or self._push_queue is None:
            return Swept(0, 0)
        found = await self._push_configs.expired_timers(limit=at_once)
        # Count only the timers of events, because they expire only if a wake-up message was lost. The timer of a push
        # config is a planned retry.
        self._metrics.count(Metric.SWEEP_FOUND, sum(1 for timer in found if timer.generation))
        # Share one iterator among the coroutines, so that each takes the next timer.
        left = iter(found)
        enqueued = await asyncio.gather(
            *(self._enqueue_for(left, self._push_configs, self._push_queue) for _ in range(min(PARALLEL, len(found))))
        )
        return Swept(len(found), sum(enqueued))

    async def _enqueue_for(
        self, left: Iterator[ExpiredPushTimer], configs: DeliveryStore, work_queue: PushQueue
    ) -> int:
        enqueued = 0
        for timer in left:
            try:
                if await configs.claim_expired(timer):
                    await work_queue.enqueue(PushWakeUp(timer.task, timer.generation))
                    enqueued += 1
            except StoreError as error:
                logger.warning("The wake-up of an overdue notification failed: %s", error)
        return enqueued
