"""Finds what is overdue and wakes it: the net below the bells, any of which may be lost."""

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
"""How many contexts one sweep wakes at the most, the longest overdue first; the next one follows in a minute."""

PUSHES_AT_ONCE = 1000
"""How many push notifications one sweep rings for. Retries further ahead than a bell come by no other way."""

AT_A_TIME = 16
"""For how many of those it rings beside one another."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep came upon."""

    found: int
    """How many contexts and notifications the index called overdue."""
    enqueued: int
    """How many of them were, and have been woken."""


class Sweep:
    """Wakes the contexts for which something was promised that has not happened, and who delivers notifications."""

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
        """Claim whatever is overdue, contexts and notifications, and enqueue a wake-up message for each.

        One that cannot be claimed or woken is left for the next sweep. Raises StoreError, once both were tried, if the
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
                # Claimed first: should the message get lost, the claim runs out, and the context is overdue again.
                if await self._store.claim(timer):
                    await self._work_queue.enqueue(WakeUp(timer.context))
                    enqueued += 1
            except StoreError as error:
                logger.warning("A context that is overdue could not be woken: %s", error)
        if enqueued:
            logger.warning("The sweep has found work: %d contexts were overdue.", enqueued)
        self._metrics.count(Metric.SWEEP_FOUND, len(found))
        return Swept(len(found), enqueued)

    async def _pushes(self, at_once: int) -> Swept:
        """Wake overdue notifications; a retry far ahead comes by no other way."""
        if self._push_configs is None or self._push_queue is None:
            return Swept(0, 0)
        found = await self._push_configs.expired_timers(limit=at_once)
        # That a config is due was planned so, where its next try is far ahead; an event is when its message was lost.
        self._metrics.count(Metric.SWEEP_FOUND, sum(1 for timer in found if timer.generation))
        # One iterator for all: each takes the next, in the order in which they were found.
        left = iter(found)
        enqueued = await asyncio.gather(
            *(self._enqueue_for(left, self._push_configs, self._push_queue) for _ in range(min(AT_A_TIME, len(found))))
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
                logger.warning("A notification that is overdue could not be rung for: %s", error)
        return enqueued
