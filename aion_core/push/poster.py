"""Posts of a log's events to one webhook, in order, under a claim of its config."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from aion_core.clock import Clock
from aion_core.engine.delivery.readiness import CLAIM_SECONDS, WAKE_UP_SECONDS
from aion_core.engine.delivery.records import Claim, Delivery
from aion_core.engine.delivery.store import DeliveryStore
from aion_core.engine.queues import LONGEST_DELAY, PushQueue, PushWakeUp
from aion_core.engine.records import Log, Numbered
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.task import subscribers
from aion_core.engine.task.timestamps import milliseconds, time_of
from aion_core.engine.wake_ups import wake_delivery
from aion_core.errors import ClaimLost, StoreError, StoreUnavailable
from aion_core.push import retry_delay
from aion_core.push.attempts import DeliveryAttempts
from aion_core.push.client import POST_SECONDS, Blocked, Delivered, PostOutcome, PostRefused, Unreachable, WebhookGone
from aion_core.telemetry import Metric, Metrics

logger = logging.getLogger(__name__)

EXIT_SECONDS = 15.0
"""Time to reserve between a post and the end of the process."""


class EventPoster:
    """Poster of the events of tasks, one config at a time."""

    def __init__(
        self,
        tasks: StoredTasks,
        store: DeliveryStore,
        queue: PushQueue,
        attempts: DeliveryAttempts,
        clock: Clock,
        *,
        chance: Callable[[], float],
        retry_seconds: Sequence[float],
        metrics: Metrics,
        stops: Callable[[], bool],
    ) -> None:
        """See `PushDelivery` for the arguments."""
        self._tasks, self._store, self._work_queue, self._attempts = tasks, store, queue, attempts
        self._clock, self._chance, self._stops = clock, chance, stops
        self._retry_seconds, self._metrics = retry_seconds, metrics

    async def post_to(self, delivery: Delivery, newest: int, timed: set[int], until: datetime) -> None:
        """Claim a config and post its undelivered events in order, until a post fails or the time is up.

        `newest` is the number of the newest known event. Add the events that have a timer to `timed`.
        """
        claim = await self._store.claim(delivery, until=self.claimed_until())
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
                if not self.has_time(until):
                    await self._release(claim, cursor + 1)
                    return
            await self._post_all(claim, log, timed, until)
        except ClaimLost:
            logger.info(
                "A push config was deleted, replaced, or claimed by another process.", extra=labels_of(delivery)
            )

    def claimed_until(self) -> datetime:
        """Return the end of a claim that begins now."""
        return self._clock.now() + timedelta(seconds=CLAIM_SECONDS)

    def has_time(self, until: datetime) -> bool:
        """Return True if a post that begins now ends before `until`, and this process is not stopping."""
        return not self._stops() and (until - self._clock.now()).total_seconds() > POST_SECONDS + EXIT_SECONDS

    async def _log(self, claim: Claim) -> Log | None:
        try:
            return await self._tasks.every_event(claim.delivery.task, after=claim.delivery.cursor)
        except StoreUnavailable:
            raise
        except StoreError:
            logger.exception("The log of a task cannot be read.", extra=labels_of(claim.delivery))
            return None

    async def _post_all(self, claim: Claim, log: Log, timed: set[int], until: datetime) -> None:
        """Post the log's events that the config wants, in order. Release the claim at the end, or at the first failure.

        `cursor` is the newest event that was posted, given up or skipped. It is stored before the next post, so that a
        process that dies repeats at most one post.
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
                    claim = await self._store.advance(claim, cursor=cursor, until=self.claimed_until())
                if not self.has_time(until):
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
                logger.info("A notification was delivered.", extra=labels_of(claim.delivery, entry.generation))
                return claim, True
            case WebhookGone():
                await self._store.disable(claim, failure=_reason(outcome))
                logger.warning("A webhook is gone: its config is disabled.", extra=labels_of(claim.delivery))
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
        reason, labels = _reason(outcome), labels_of(claim.delivery, generation)
        tries, retry_seconds = claim.delivery.tries, self._retry_seconds
        wait = retry_delay.delay(tries, outcome, self._chance(), retry_seconds=retry_seconds)
        if wait is None:
            self._metrics.count(Metric.PUSH_GIVEN_UP)
            logger.error("A notification is given up: %s", reason, extra=labels)
            return await self._store.give_up(claim, cursor=generation, failure=reason, until=self.claimed_until())
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

    def _ends_soon(self, claim: Claim) -> bool:
        """Return True if the claim might end during the next post."""
        until = claim.delivery.claimed_until
        return until is None or (until - self._clock.now()).total_seconds() < 2 * POST_SECONDS


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


def labels_of(delivery: Delivery, generation: int = 0) -> dict[str, object]:
    """Return the labels for log records of a delivery: ids, but nothing secret of the config."""
    labels: dict[str, object] = {"task_id": delivery.task.task_id, "config_id": delivery.config_id}
    return labels | ({"generation": generation} if generation else {})
