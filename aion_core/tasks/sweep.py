"""Sweep of expired timers: enqueues the wake-up messages again, any of which may have been lost."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from aion_core.errors import StoreError
from aion_core.ports import (
    ExpiredPushTimer,
    Metric,
    Metrics,
    NullMetrics,
    PushConfigs,
    PushQueue,
    PushWakeUp,
    TaskStore,
    WakeUp,
    WorkQueue,
)

logger = logging.getLogger(__name__)

AT_ONCE = 200
"""Limit of contexts per sweep, the longest overdue first; the next sweep follows in a minute."""

PUSHES_AT_ONCE = 1000
"""Limit of push timers per sweep. Only the sweep starts retries further ahead than the queue's longest delay."""

PARALLEL = 16
"""Push timers claimed in parallel."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Counts of one sweep."""

    found: int
    """Expired timers of contexts and notifications, by the index."""
    enqueued: int
    """Claimed timers with a new wake-up message."""


class Sweep:
    """Sweep of the timers of contexts and notifications."""

    def __init__(
        self,
        store: TaskStore,
        work_queue: WorkQueue,
        push_configs: PushConfigs | None = None,
        push_queue: PushQueue | None = None,
        *,
        metrics: Metrics | None = None,
    ) -> None:
        self._metrics = metrics or NullMetrics()
        self._store, self._work_queue = store, work_queue
        self._push_configs, self._push_queue = push_configs, push_queue

    async def once(self, *, at_once: int = AT_ONCE, pushes_at_once: int = PUSHES_AT_ONCE) -> Swept:
        """Claim the expired timers of contexts and notifications, and enqueue a wake-up message for each.

        After a failed claim or enqueue the timer stays for the next sweep. Raises StoreError, after trying both, if the
        index of either cannot be read.
        """
        found, enqueued, failure = 0, 0, None
        for sweep, limit in ((self._contexts, at_once), (self._pushes, pushes_at_once)):
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
                # Claim first: if the message is lost, the claim expires, and a later sweep finds the context again.
                if await self._store.claim(timer):
                    await self._work_queue.enqueue(WakeUp(timer.context))
                    enqueued += 1
            except StoreError as error:
                logger.warning("The wake-up of an overdue context failed: %s", error)
        if enqueued:
            logger.warning("The sweep has found work: %d contexts were overdue.", enqueued)
        self._metrics.count(Metric.SWEEP_FOUND, len(found))
        return Swept(len(found), enqueued)

    async def _pushes(self, at_once: int) -> Swept:
        if self._push_configs is None or self._push_queue is None:
            return Swept(0, 0)
        found = await self._push_configs.expired_timers(limit=at_once)
        # The retry timer of a config expires as planned; the timer of an event expires only if its message was lost.
        self._metrics.count(Metric.SWEEP_FOUND, sum(1 for timer in found if timer.generation))
        # The workers share one iterator: each takes the next timer.
        left = iter(found)
        enqueued = await asyncio.gather(
            *(self._enqueue_for(left, self._push_configs, self._push_queue) for _ in range(min(PARALLEL, len(found))))
        )
        return Swept(len(found), sum(enqueued))

    async def _enqueue_for(self, left: Iterator[ExpiredPushTimer], configs: PushConfigs, work_queue: PushQueue) -> int:
        enqueued = 0
        for timer in left:
            try:
                if await configs.claim_expired(timer):
                    await work_queue.enqueue(PushWakeUp(timer.task, timer.generation))
                    enqueued += 1
            except StoreError as error:
                logger.warning("The wake-up of an overdue notification failed: %s", error)
        return enqueued
