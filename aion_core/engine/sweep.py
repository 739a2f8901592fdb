"""Sweep of expired timers (times of wake-ups). Enqueues a new wake-up message for each: the first may be lost."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from msgspec import Struct

from aion_core.engine.delivery.records import ExpiredPushTimer
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.queues import PushQueue, PushWakeUp, WakeUp, WorkQueue
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.engine.timers import Claimed, ExpiredTimer
from aion_core.engine.turn.store import TurnStore
from aion_core.errors import StoreError
from aion_core.telemetry import Metric, Metrics, NullMetrics

logger = logging.getLogger(__name__)

AT_ONCE = 200
"""Number of contexts of each kind per sweep, the longest overdue first. The next sweep follows in a minute."""

PUSHES_AT_ONCE = 1000
"""Number of push timers per sweep. Only the sweep starts retries that lie beyond the longest delay of the queue."""

CALLS_AT_ONCE = 200
"""Number of timers of remote calls to cancel per sweep."""

PARALLEL = 16
"""Number of timers claimed in parallel."""

NEARLY_ALL = 0.9
"""Share of the waiting contexts that need a message in the queue if none is lost. SQS counts approximately."""

QUEUED_SECONDS = 3600.0
"""Seconds after which a context gets another message although the queue seems to have one for it."""

QUEUED_AT_ONCE = 10
"""Number of these contexts per sweep, the longest overdue first, so that messages do not multiply in a backlog."""


class Swept(Struct, frozen=True):
    """Result of one sweep: the numbers of expired timers (times of wake-ups) and of enqueued wake-up messages."""

    found: int
    """Number of dead leases, lost wake-up messages of contexts, and expired timers of notifications.

    A look at a suspended turn is not counted: it has only begun later than planned.
    """
    enqueued: int
    """Number of claimed timers for which a wake-up message was enqueued."""


def lost_messages(waiting: int, messages: int) -> int:
    """Return how many of the waiting contexts have no message, with this many messages in the queue. Pure.

    Each has at least one, unless it is lost: a worker that takes a message begins the turn within moments.
    """
    return waiting - messages if messages < NEARLY_ALL * waiting else 0


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
        # Sweep the dead leases first: their turns were running, and a client may be watching them.
        kinds = (
            (self._leases, at_once),
            (self._waits, at_once),
            (self._pushes, pushes_at_once),
            (self._cancellations, CALLS_AT_ONCE),
        )
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

    async def _leases(self, at_once: int) -> Swept:
        swept = await self._wake(await self._store.dead_leases(limit=at_once), urgent=True)
        if swept.found:
            logger.warning("The sweep has found work: the leases of %d running turns had expired.", swept.found)
        self._metrics.count(Metric.SWEEP_FOUND, swept.found)
        return swept

    async def _waits(self, at_once: int) -> Swept:
        """Replace the lost wake-up messages of waiting contexts. In a backlog, contexts wait although none is lost."""
        overdue = await self._store.overdue_waits(limit=at_once)
        gone = await self._lost(len(overdue)) if overdue else 0
        swept = await self._wake(overdue[:gone])
        if swept.found:
            logger.warning("The sweep has found work: the messages of %d waiting contexts were lost.", swept.found)
        self._metrics.count(Metric.SWEEP_FOUND, swept.found)
        # The queue may also hold useless messages in place of a lost one. Those that have waited long get another one.
        old = [timer for timer in overdue[gone:] if timer.overdue >= QUEUED_SECONDS]
        again = await self._wake(old[:QUEUED_AT_ONCE])
        return Swept(swept.found, swept.enqueued + again.enqueued)

    async def _lost(self, overdue: int) -> int:
        # Count the messages first: one that is received between the two counts would otherwise seem lost.
        messages = await self._work_queue.backlog()
        return lost_messages(await self._store.count_waits(), messages) if messages else overdue

    async def _wake(self, timers: Sequence[ExpiredTimer], *, urgent: bool = False) -> Swept:
        """Claim the timers and enqueue a message for each. Found are those that no process has changed meanwhile."""
        left, found, enqueued = iter(timers), 0, 0

        async def each() -> None:
            nonlocal found, enqueued
            for timer in left:
                try:
                    # Claim the timer before enqueuing the message. The claim sets the timer again, so that a later
                    # sweep finds the context if the message is lost.
                    if claimed := await self._store.claim(timer):
                        found += claimed is not Claimed.LOOK
                        await self._work_queue.enqueue(WakeUp(timer.context), urgent=urgent)
                        enqueued += 1
                except StoreError as error:
                    logger.warning("The wake-up of an overdue context failed: %s", error)

        await asyncio.gather(*(each() for _ in range(min(PARALLEL, len(timers)))))
        return Swept(found, enqueued)

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
