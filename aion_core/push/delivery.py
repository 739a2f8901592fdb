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
from aion_core.engine.delivery import schedule
from aion_core.engine.delivery.records import Claim, Delivery
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.queues import LONGEST_DELAY, PushQueue, PushWakeUp
from aion_core.engine.records import Log, Numbered
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.task import subscribers
from aion_core.engine.task.timestamps import milliseconds, time_of
from aion_core.engine.wake_ups import wake_delivery
from aion_core.errors import ClaimLost, StoreError, StoreUnavailable
from aion_core.log import note
from aion_core.push import retry_delay
from aion_core.push.attempts import DeliveryAttempts
from aion_core.push.client import (
    POST_SECONDS,
    Blocked,
    Delivered,
    PostOutcome,
    PostRefused,
    Unreachable,
    WebhookClient,
    WebhookGone,
)
from aion_core.push.request import Render
from aion_core.table.keys import TaskKey
from aion_core.telemetry import Metric, Metrics, NoopTraces, NullMetrics, Traces

logger = logging.getLogger(__name__)

CLAIM_SECONDS = 60.0
"""Duration of a claim if it is not renewed: three times the time limit of a post."""

WAKE_UP_SECONDS = 30.0
"""Time from the arrival of a retry's wake-up message until the retry's timer expires."""

SOON_SECONDS = 10.0
"""A wake-up message may arrive this long before its attempt is due, since clocks differ."""

EXIT_SECONDS = 15.0
"""Time to reserve between a post and the end of the process."""

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
        self._retry_seconds = retry_seconds
        self._metrics = metrics or NullMetrics()
        self._tasks, self._store, self._work_queue = tasks, store, queue
        self._attempts = DeliveryAttempts(tasks, webhooks, render, clock, traces or NoopTraces())
        self._clock, self._chance, self._stops = clock, chance, stops

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
            ready = [delivery for delivery in deliveries if schedule.is_ready(delivery, head.generation, now)]
            if not ready:
                await self._clear_timers(task, deliveries, timed)
                if not deliveries and head.push_events is not None:
                    await self._store.clear_subscribers(head)
                if not number:
                    await self._enqueue_retry(task, deliveries, now)
                return
            if not self._has_time(until):
                break
            # Deliver to all webhooks concurrently, because a slow receiver must not delay the others.
            ended = await asyncio.gather(
                *(self._deliver_to(delivery, head.generation, timed, until) for delivery in ready),
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
            if all(schedule.covers(delivery, generation) for delivery in deliveries):
                await self._store.clear(task, generation)

    async def _clear_expired(self, task: TaskKey, deliveries: Sequence[Delivery], timed: set[int]) -> None:
        """Remove all push timers of an expired task: a timer of a failed config or an event may outlive the task."""
        for delivery in deliveries:
            if delivery.due_at is None or schedule.is_claimed(delivery, self._clock.now()):
                continue
            logger.error("The task of a push config has expired before its delivery.", extra=_labels(delivery))
            claim = await self._store.claim(delivery, until=self._claimed_until())
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

    async def _deliver_to(self, delivery: Delivery, newest: int, timed: set[int], until: datetime) -> None:
        """Claim a config and post its undelivered events in order, until a post fails or the time is up.

        `newest` is the number of the newest known event.
        """
        claim = await self._store.claim(delivery, until=self._claimed_until())
        if claim is None:
            return
        try:
            # Read the log after the claim, because other processes now leave new events to this process.
            while (log := await self._log(claim)) is None:
                # Count an unreadable log as a failed attempt, so that the event is given up in the end: later events
                # may be readable.
                cursor = claim.delivery.cursor
                if cursor >= newest:
                    await self._store.settle(claim, cursor=cursor)
                    return
                given_up = await self._fail(claim, cursor + 1, Unreachable("the task's log cannot be read"))
                if given_up is None:
                    return
                claim = given_up
                if not self._has_time(until):
                    await self._release(claim, cursor + 1)
                    return
            await self._post_all(claim, log, timed, until)
        except ClaimLost:
            logger.info("A push config was deleted, replaced, or claimed by another process.", extra=_labels(delivery))

    async def _log(self, claim: Claim) -> Log | None:
        try:
            return await self._tasks.every_event(claim.delivery.task, after=claim.delivery.cursor)
        except StoreUnavailable:
            raise
        except StoreError:
            logger.exception("The log of a task cannot be read.", extra=_labels(claim.delivery))
            return None

    async def _post_all(self, claim: Claim, log: Log, timed: set[int], until: datetime) -> None:
        """Post the log's events that the config wants, in order. Release the claim at the end, or at the first failure.

        `cursor` is the newest event that was posted, given up or skipped. It is stored before the next post, so that a
        process that dies repeats at most one post. Add the events that have a timer to `timed`.
        """
        cursor, delivered = claim.delivery.cursor, False
        wanted = claim.config.events if claim.config is not None else log.head.push_events
        for entry in log.events:
            if entry.generation <= cursor:
                continue
            if subscribers.has_subscriber_for(log.head, entry.event):
                timed.add(entry.generation)
            if wanted is not None and subscribers.wants(wanted, entry.event):
                if delivered or self._ends_soon(claim):
                    claim = await self._store.advance(claim, cursor=cursor, until=self._claimed_until())
                if not self._has_time(until):
                    await self._release(claim, cursor)
                    return
                posted = await self._post(claim, entry)
                if posted is None:
                    return
                claim, delivered = posted
            cursor = entry.generation
        await self._store.settle(claim, cursor=log.head.generation, delivered=delivered)

    async def _post(self, claim: Claim, entry: Numbered) -> tuple[Claim, bool] | None:
        """Post one event. Return the claim for the next events, and True if this event was delivered, else given up.

        Return None if the claim is released: the webhook is gone, or the event will be posted again later.
        """
        # Skip no last attempt for an open circuit, because an event may be given up only after a real post.
        is_last = claim.delivery.tries >= len(self._retry_seconds)
        outcome = await self._attempts.make(claim, entry, may_be_skipped=not is_last)
        match outcome:
            case Delivered():
                self._count_delivered(entry)
                logger.info("A notification was delivered.", extra=_labels(claim.delivery, entry.generation))
                return claim, True
            case WebhookGone():
                await self._store.disable(claim, failure=_reason(outcome))
                logger.warning("A webhook is gone: its config is disabled.", extra=_labels(claim.delivery))
                return None
            case _:
                given_up = await self._fail(claim, entry.generation, outcome)
                return (given_up, False) if given_up is not None else None

    async def _release(self, claim: Claim, cursor: int) -> None:
        """Release the claim because the time is up. The config's timer wakes another process for the other events."""
        now = self._clock.now()
        await self._store.settle(claim, cursor=cursor, due_at=now + timedelta(seconds=WAKE_UP_SECONDS))

    async def _fail(self, claim: Claim, generation: int, outcome: PostOutcome) -> Claim | None:
        """Store a failed post and schedule a retry. After the last retry, give the event up and return the claim."""
        reason, labels = _reason(outcome), _labels(claim.delivery, generation)
        tries, retry_seconds = claim.delivery.tries, self._retry_seconds
        wait = retry_delay.delay(tries, outcome, self._chance(), retry_seconds=retry_seconds)
        if wait is None:
            self._metrics.count(Metric.PUSH_GIVEN_UP)
            logger.error("A notification is given up: %s", reason, extra=labels)
            return await self._store.give_up(claim, cursor=generation, failure=reason, until=self._claimed_until())
        self._metrics.count(Metric.PUSH_RETRIES)
        logger.warning("A notification failed: %s", reason, extra=labels)
        next_at = self._clock.now() + wait
        # Leave the retry to the sweep of timers if the wait exceeds the longest delay of the queue.
        by_wake_up = wait.total_seconds() <= LONGEST_DELAY
        due_at = next_at + timedelta(seconds=WAKE_UP_SECONDS) if by_wake_up else next_at
        await self._store.fail(claim, failure=reason, next_at=next_at, due_at=due_at)
        if by_wake_up:
            await wake_delivery(self._work_queue, PushWakeUp(claim.delivery.task), delay=wait.total_seconds())
        return None

    def _count_delivered(self, entry: Numbered) -> None:
        self._metrics.count(Metric.PUSH_DELIVERED)
        if (happened := time_of(entry.event)) is not None:
            self._metrics.count(Metric.PUSH_LAG, milliseconds(happened, self._clock.now()))

    def _claimed_until(self) -> datetime:
        return self._clock.now() + timedelta(seconds=CLAIM_SECONDS)

    def _ends_soon(self, claim: Claim) -> bool:
        """Return True if the claim might end during the next post."""
        until = claim.delivery.claimed_until
        return until is None or (until - self._clock.now()).total_seconds() < 2 * POST_SECONDS

    def _has_time(self, until: datetime) -> bool:
        return not self._stops() and (until - self._clock.now()).total_seconds() > POST_SECONDS + EXIT_SECONDS


def _reason(outcome: PostOutcome) -> str:
    match outcome:
        case PostRefused(status=status):
            return f"HTTP {status}"
        case WebhookGone():
            return "HTTP 410"
        case Blocked(reason=reason):
            return f"blocked: {reason}"
        case Unreachable(reason=reason):
            return reason
        case _:
            return ""


def _labels(delivery: Delivery, generation: int = 0) -> dict[str, object]:
    """Return the labels for log records of a delivery: ids, but nothing secret of the config."""
    labels: dict[str, object] = {"task_id": delivery.task.task_id, "config_id": delivery.config_id}
    return labels | ({"generation": generation} if generation else {})
