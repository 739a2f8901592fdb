"""Delivers push notifications: what each config has not passed, in order, under a claim (R94).

Nothing is forgotten. An event that somebody wants to be told of is due from its own commit on, and stays so until each
config has passed it or is due itself. A config is due from its claim on, by the claim's end or the next try, until it
has passed what was in the log when that was read, after the claim.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from aion_core.errors import ClaimLost, StoreError, StoreUnavailable
from aion_core.log import note
from aion_core.ports import (
    POST_SECONDS,
    Blocked,
    Claim,
    Clock,
    Delivered,
    Delivery,
    Log,
    Metric,
    Metrics,
    NoopTraces,
    NullMetrics,
    Numbered,
    PostOutcome,
    PushConfigs,
    PushQueue,
    PushWakeUp,
    Render,
    TaskKey,
    TaskStore,
    Traces,
    Unreachable,
    WebhookClient,
    WebhookGone,
    WebhookRejected,
)
from aion_core.push import schedule
from aion_core.push.attempts import DeliveryAttempts
from aion_core.tasks import heads
from aion_core.tasks.lifecycle import milliseconds, time_of
from aion_core.tasks.notifications import wake_delivery

logger = logging.getLogger(__name__)

CLAIM_SECONDS = 60.0
"""How long a claim holds without a word from its holder: three times as long as a post may take."""

WAKE_UP_SECONDS = 30.0
"""How long after a bell was to be heard a try is overdue."""

LONGEST_WAKE_UP_SECONDS = 900.0
"""Further ahead no bell is rung: the due index tells."""

SOON_SECONDS = 10.0
"""A bell that is heard so little before a next try may have been rung for that: clocks differ."""

LEAVE_SECONDS = 15.0
"""So long before its process ends nothing more is begun than a post could outlast."""

SHARE_SECONDS = 60.0
"""How long the posts of one bell may go on while others wait for their turn: then another one is rung, behind theirs."""

ROUNDS = 50
"""How often one bell is answered by looking again, before another one is rung."""


class PushDelivery:
    """Answers the bells of push notifications."""

    def __init__(
        self,
        tasks: TaskStore,
        configs: PushConfigs,
        queue: PushQueue,
        webhooks: WebhookClient,
        render: Render,
        clock: Clock,
        *,
        chance: Callable[[], float] = random.random,
        retry_seconds: Sequence[float] = schedule.RETRY_SECONDS,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`render` makes what is posted; `chance` gives numbers from 0 to 1, for the jitter of `retry_seconds`."""
        self._retry_seconds = retry_seconds
        self._metrics = metrics or NullMetrics()
        self._tasks, self._configs, self._work_queue = tasks, configs, queue
        self._tries = DeliveryAttempts(tasks, webhooks, render, clock, traces or NoopTraces())
        self._clock, self._chance = clock, chance

    async def answer(self, wake_up: PushWakeUp, *, until: datetime | None = None) -> None:
        """Post what is to be posted for the bell's task; where there is nothing, nothing happens.

        `until`: when this process ends, before which the rest is left to another bell. Raises StoreError where the
        table cannot be asked: the bell is to be heard again.
        """
        task, walked = wake_up.task, {wake_up.generation} if wake_up.generation else set[int]()
        share = self._clock.now() + timedelta(seconds=SHARE_SECONDS + POST_SECONDS + LEAVE_SECONDS)
        until = min(until, share) if until is not None else share
        for number in range(ROUNDS):
            head = await self._tasks.head(task)
            deliveries = await self._configs.deliveries(task)
            if head is None:
                await self._forget(task, deliveries, walked)
                return
            note(context_id=head.context.context_id, agent=head.context.agent)
            now = self._clock.now()
            ready = [delivery for delivery in deliveries if schedule.is_ready(delivery, head.generation, now)]
            if not ready:
                await self._settle(task, deliveries, walked)
                if not deliveries and head.push_events is not None:
                    await self._configs.unsubscribe(head)
                if not number:
                    await self._enqueue_retry(task, deliveries, now)
                return
            if not self._has_time(until):
                break
            # One slow receiver does not hold up the others.
            ended = await asyncio.gather(
                *(self._deliver(delivery, head.generation, walked, until) for delivery in ready),
                return_exceptions=True,
            )
            for error in ended:
                if isinstance(error, BaseException):
                    raise error
        await wake_delivery(self._work_queue, PushWakeUp(task))

    async def _settle(self, task: TaskKey, deliveries: Sequence[Delivery], walked: set[int]) -> None:
        """Forget the events that need not be remembered any more.

        They were recorded before the deliveries were read: who is due itself reads the log later, and finds them.
        """
        for generation in sorted(walked):
            if all(schedule.takes_care_of(delivery, generation) for delivery in deliveries):
                await self._configs.clear(task, generation)

    async def _forget(self, task: TaskKey, deliveries: Sequence[Delivery], walked: set[int]) -> None:
        """Let nothing be due of a task that has expired: a config that has failed may outlive it, and so may an event."""
        for delivery in deliveries:
            if delivery.due_at is None or schedule.is_claimed(delivery, self._clock.now()):
                continue
            logger.error("The task of a push config is gone before it was told.", extra=_labels(delivery))
            claim = await self._configs.claim(delivery, until=self._claimed_until())
            if claim is not None:
                await self._configs.disable(claim, failure="the task has expired")
        for generation in walked:
            await self._configs.clear(task, generation)

    async def _enqueue_retry(self, task: TaskKey, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Ring for a try that is nearly due: the bell was rung for it, and was heard by a clock that is behind."""
        left = [
            (delivery.next_at - now).total_seconds()
            for delivery in deliveries
            if delivery.next_at is not None and not delivery.disabled
        ]
        if left and 0 < min(left) <= SOON_SECONDS:
            await wake_delivery(self._work_queue, PushWakeUp(task), delay=min(left))

    async def _deliver(self, delivery: Delivery, newest: int, walked: set[int], until: datetime) -> None:
        """Post for one config what it has not passed, in order, until it has, or a post fails, or time is up.

        `newest`: the number of the event that was the newest when somebody looked.
        """
        claim = await self._configs.claim(delivery, until=self._claimed_until())
        if claim is None:
            return
        try:
            # Read after the claim: who finds the config claimed leaves what is in the log by then to us.
            while (log := await self._log(claim)) is None:
                # Like an event that is not taken: it is given up in the end, and perhaps those behind it can be read.
                cursor = claim.delivery.cursor
                if cursor >= newest:
                    await self._configs.settle(claim, cursor=cursor)
                    return
                given_up = await self._fail(claim, cursor + 1, Unreachable("the task's log cannot be read"))
                if given_up is None:
                    return
                claim = given_up
                if not self._has_time(until):
                    await self._leave(claim, cursor + 1)
                    return
            await self._post_all(claim, log, walked, until)
        except ClaimLost:
            logger.info("A push config was deleted, or replaced, or is another's.", extra=_labels(delivery))

    async def _log(self, claim: Claim) -> Log | None:
        try:
            return await self._tasks.every_event(claim.delivery.task, after=claim.delivery.cursor)
        except StoreUnavailable:
            raise
        except StoreError:
            logger.exception("The log of a task cannot be read.", extra=_labels(claim.delivery))
            return None

    async def _post_all(self, claim: Claim, log: Log, walked: set[int], until: datetime) -> None:
        cursor, delivered = claim.delivery.cursor, False
        told_of = claim.config.events if claim.config is not None else log.head.push_events
        for entry in log.events:
            if entry.generation <= cursor:
                continue
            if heads.listened_to(log.head, entry.event):
                walked.add(entry.generation)
            if told_of is None or not heads.wants(told_of, entry.event):
                cursor = entry.generation
                continue
            if delivered or self._runs_out(claim):
                claim = await self._configs.advance(claim, cursor=cursor, until=self._claimed_until())
                delivered = False
            if not self._has_time(until):
                await self._leave(claim, cursor)
                return
            # Nothing is given up but by a try that was made.
            is_last = claim.delivery.tries >= len(self._retry_seconds)
            outcome = await self._tries.make(claim, entry, may_be_skipped=not is_last)
            match outcome:
                case Delivered():
                    cursor, delivered = entry.generation, True
                    self._count_delivered(entry)
                    logger.info("A notification was delivered.", extra=_labels(claim.delivery, entry.generation))
                case WebhookGone():
                    await self._configs.disable(claim, failure=_words(outcome))
                    logger.warning("A webhook is gone: its config is disabled.", extra=_labels(claim.delivery))
                    return
                case _:
                    given_up = await self._fail(claim, entry.generation, outcome)
                    if given_up is None:
                        return
                    claim, cursor = given_up, entry.generation
        await self._configs.settle(claim, cursor=log.head.generation, delivered=delivered)

    async def _leave(self, claim: Claim, cursor: int) -> None:
        """Give the claim back for want of time: the rest is another bell's."""
        now = self._clock.now()
        await self._configs.settle(claim, cursor=cursor, due_at=now + timedelta(seconds=WAKE_UP_SECONDS))

    async def _fail(self, claim: Claim, generation: int, outcome: PostOutcome) -> Claim | None:
        """Note that a post failed, and see to the next try; return the claim where the event is given up instead."""
        words, labels = _words(outcome), _labels(claim.delivery, generation)
        tries, retry_seconds = claim.delivery.tries, self._retry_seconds
        wait = schedule.delay(tries, outcome, self._chance(), retry_seconds=retry_seconds)
        if wait is None:
            self._metrics.count(Metric.PUSH_GIVEN_UP)
            logger.error("A notification is given up: %s", words, extra=labels)
            return await self._configs.give_up(claim, cursor=generation, failure=words, until=self._claimed_until())
        self._metrics.count(Metric.PUSH_RETRIES)
        logger.warning("A notification failed: %s", words, extra=labels)
        next_at = self._clock.now() + wait
        by_wake_up = wait.total_seconds() <= LONGEST_WAKE_UP_SECONDS
        due_at = next_at + timedelta(seconds=WAKE_UP_SECONDS) if by_wake_up else next_at
        await self._configs.fail(claim, failure=words, next_at=next_at, due_at=due_at)
        if by_wake_up:
            await wake_delivery(self._work_queue, PushWakeUp(claim.delivery.task), delay=wait.total_seconds())
        return None

    def _count_delivered(self, entry: Numbered) -> None:
        self._metrics.count(Metric.PUSH_DELIVERED)
        if (happened := time_of(entry.event)) is not None:
            self._metrics.count(Metric.PUSH_LAG, milliseconds(happened, self._clock.now()))

    def _claimed_until(self) -> datetime:
        return self._clock.now() + timedelta(seconds=CLAIM_SECONDS)

    def _runs_out(self, claim: Claim) -> bool:
        """Tell whether the claim could run out while something is posted under it."""
        until = claim.delivery.claimed_until
        return until is None or (until - self._clock.now()).total_seconds() < 2 * POST_SECONDS

    def _has_time(self, until: datetime) -> bool:
        return (until - self._clock.now()).total_seconds() > POST_SECONDS + LEAVE_SECONDS


def _words(outcome: PostOutcome) -> str:
    match outcome:
        case WebhookRejected(status=status):
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
    """What the log says beside each line: ids, and nothing of the config."""
    labels: dict[str, object] = {"task_id": delivery.task.task_id, "config_id": delivery.config_id}
    return labels | ({"generation": generation} if generation else {})
