"""Sweep of expired timers (times of wake-ups). Enqueues a new wake-up message for each: the first may be lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from msgspec import Struct

from aion_core.engine.delivery.records import ExpiredPushTimer
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.queues import PushQueue, PushWakeUp, WakeUp, WorkQueue
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.engine.timers import Claimed, ExpiredTimer
from aion_core.engine.turn.store import TurnStore
from aion_core.errors import StoreError
from aion_core.table.keys import TaskKey
from aion_core.telemetry import Metric, Metrics, NullMetrics

logger = logging.getLogger(__name__)

T = TypeVar("T", ExpiredTimer, ExpiredPushTimer)

AT_ONCE = 200
"""Number of contexts of each kind per sweep, the longest overdue first. The next sweep follows in a minute."""

PUSHES_AT_ONCE = 1000
"""Number of push timers of each kind per sweep. Only the sweep starts retries beyond the longest delay of the queue."""

CALLS_AT_ONCE = 200
"""Number of timers of remote calls to cancel per sweep."""

PARALLEL = 16
"""Number of timers claimed in parallel."""

NEARLY_ALL = 0.9
"""Share of what waits that needs a message in the queue if none is lost. SQS counts approximately."""

QUEUED_SECONDS = 3600.0
"""Seconds after which what waits gets another message although the queue seems to have one for it."""

QUEUED_AT_ONCE = 10
"""Number of these messages per sweep and queue, the longest overdue first, so that they do not multiply in a backlog."""


class Swept(Struct, frozen=True):
    """Result of one sweep: the numbers of expired timers (times of wake-ups) and of enqueued wake-up messages."""

    found: int
    """Number of dead workers' leases and claims, of lost wake-up messages, and of remote calls to cancel.

    A look at a suspended turn, or a planned retry of a notification, is not counted: nothing was lost.
    """
    enqueued: int
    """Number of claimed timers for which a wake-up message was enqueued."""


def lost_messages(waiting: int, messages: int) -> int:
    """Return how many of those that wait have no message, with this many messages in the queue. Pure.

    Each has at least one, unless it is lost: a worker that takes a message begins the turn, or claims the webhook, within
    moments. Then it does not wait any more.
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
            (self._push_plans, pushes_at_once),
            (self._push_waits, pushes_at_once),
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
        self._count(swept, "the leases of %d running turns had expired")
        return swept

    async def _waits(self, at_once: int) -> Swept:
        """Replace the lost wake-up messages of waiting contexts. In a backlog, contexts wait although none is lost."""
        overdue = await self._store.overdue_waits(limit=at_once)
        gone = await self._lost(len(overdue)) if overdue else 0
        swept = await self._wake(overdue[:gone])
        self._count(swept, "the messages of %d waiting contexts were lost")
        again = await self._wake(_long_queued(overdue[gone:]))
        return Swept(swept.found, swept.enqueued + again.enqueued)

    async def _lost(self, overdue: int) -> int:
        # Count the messages first: one that is received between the two counts would otherwise seem lost.
        messages = await self._work_queue.backlog()
        return lost_messages(await self._store.count_waits(), messages) if messages else overdue

    async def _wake(self, timers: Sequence[ExpiredTimer], *, urgent: bool = False) -> Swept:
        """Claim the timers of contexts and enqueue a message for each."""

        async def send(timer: ExpiredTimer) -> None:
            await self._work_queue.enqueue(WakeUp(timer.context), urgent=urgent)

        return await _claimed_and_sent(timers, self._store.claim, send)

    async def _cancellations(self, at_once: int) -> Swept:
        overdue = await self._remote_calls.overdue(limit=at_once) if self._remote_calls is not None else ()
        for context, task in overdue:
            await self._work_queue.enqueue(WakeUp(context, task_id=task.task_id))
        return Swept(len(overdue), len(overdue))

    async def _push_plans(self, at_once: int) -> Swept:
        """Begin planned retries of notifications, and wake the webhooks whose claims a dead process has left."""
        if self._push_configs is None or self._push_queue is None:
            return Swept(0, 0)
        expired = await self._push_configs.expired_plans(limit=at_once)
        swept = await _wake_pushes(self._push_configs, self._push_queue, expired)
        self._count(swept, "the claims of %d webhooks had expired")
        return swept

    async def _push_waits(self, at_once: int) -> Swept:
        """Replace the lost wake-up messages of notifications. See `_waits`."""
        configs, queue = self._push_configs, self._push_queue
        if configs is None or queue is None or not (overdue := await configs.overdue_waits(limit=at_once)):
            return Swept(0, 0)
        lost = await _without_message(configs, queue, overdue)
        swept = await _wake_pushes(configs, queue, [timer for timer in overdue if timer.task in lost])
        self._count(swept, "the messages of %d notifications were lost")
        others = [timer for timer in overdue if timer.task not in lost]
        again = await _wake_pushes(configs, queue, _long_queued(others))
        return Swept(swept.found, swept.enqueued + again.enqueued)

    def _count(self, swept: Swept, reason: str) -> None:
        if swept.found:
            logger.warning("The sweep has found work: %s.", reason % swept.found)
        self._metrics.count(Metric.SWEEP_FOUND, swept.found)


async def _without_message(
    configs: DeliveryStore, queue: PushQueue, overdue: Sequence[ExpiredPushTimer]
) -> Collection[TaskKey]:
    """Return the tasks of these timers whose messages are lost, the first ones if the queue has messages for the others.

    Count tasks, because events that follow each other fast share a message.
    """
    # Count the messages first, and read the claims last: a message that is received in between would otherwise seem lost.
    messages = await queue.backlog()
    waiting = await configs.waiting() if messages else set()
    in_delivery = await configs.in_delivery()
    tasks = [task for task in dict.fromkeys(timer.task for timer in overdue) if task not in in_delivery]
    return set(tasks[: lost_messages(len(waiting - in_delivery), messages)] if messages else tasks)


async def _wake_pushes(configs: DeliveryStore, queue: PushQueue, timers: Sequence[ExpiredPushTimer]) -> Swept:
    """Claim the push timers and enqueue a message for each."""

    async def send(timer: ExpiredPushTimer) -> None:
        await queue.enqueue(PushWakeUp(timer.task, timer.generation))

    return await _claimed_and_sent(timers, configs.claim_expired, send)


def _long_queued(overdue: Sequence[T]) -> Sequence[T]:
    """Return a few timers that have waited long: the queue may hold useless messages in place of a lost one."""
    return [timer for timer in overdue if timer.overdue >= QUEUED_SECONDS][:QUEUED_AT_ONCE]


async def _claimed_and_sent(
    timers: Sequence[T], claim: Callable[[T], Awaitable[Claimed]], send: Callable[[T], Awaitable[None]]
) -> Swept:
    """Claim the timers and enqueue a message for each. Found are those that no process has changed meanwhile."""
    left, found, enqueued = iter(timers), 0, 0

    async def each() -> None:
        nonlocal found, enqueued
        # Share one iterator among the coroutines, so that each takes the next timer.
        for timer in left:
            try:
                # Claim the timer before enqueuing the message. The claim sets the timer again, so that a later sweep
                # finds it if the message is lost.
                if claimed := await claim(timer):
                    found += claimed is Claimed.WORK
                    await send(timer)
                    enqueued += 1
            except StoreError as error:
                logger.warning("The wake-up of an overdue timer failed: %s", error)

    await asyncio.gather(*(each() for _ in range(min(PARALLEL, len(timers)))))
    return Swept(found, enqueued)
