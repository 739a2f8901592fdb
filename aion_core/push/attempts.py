"""Attempts to deliver an event to a webhook. A circuit breaker limits them."""

import logging
from urllib.parse import quote

from aion_core.clock import Clock
from aion_core.engine.delivery.records import Claim
from aion_core.engine.push_config import PushVersion
from aion_core.engine.records import Log, Numbered
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.task import projection
from aion_core.errors import StoreUnavailable
from aion_core.log import label
from aion_core.protocol.types import Task
from aion_core.push.circuit_breaker import CircuitBreaker
from aion_core.push.client import Delivered, PostOutcome, Unreachable, WebhookClient
from aion_core.push.request import Notification, Render
from aion_core.table.keys import TaskKey
from aion_core.telemetry import SpanKind, Traces

logger = logging.getLogger(__name__)

SKIPPED = "not tried: the same owner's earlier posts to its host were not answered"
"""Failure text of an attempt skipped because of an open circuit."""


class DeliveryAttempts:
    """Sender of single notifications. All attempts of a process share one circuit breaker."""

    def __init__(
        self, tasks: StoredTasks, webhooks: WebhookClient, render: Render, clock: Clock, traces: Traces
    ) -> None:
        self._tasks, self._webhooks, self._render = tasks, webhooks, render
        self._clock, self._traces = clock, traces
        self._breaker = CircuitBreaker()
        self._log: Log | None = None
        """Log read for the last v0.3 notification, if it has later events. Their notifications need it next."""

    async def make(self, claim: Claim, entry: Numbered, *, may_be_skipped: bool) -> PostOutcome:
        """Post the event once to the webhook of the claimed config, and return the outcome.

        With `may_be_skipped`, send no request if the receiver's circuit is open: the attempt then counts as failed.
        Raises StoreUnavailable if the task for a v0.3 notification cannot be read now.
        """
        task = claim.delivery.task
        config = claim.config
        if config is None:
            return Unreachable("the stored config cannot be read")
        if self._breaker.is_open(task.owner, config.url, self._clock.now()) and may_be_skipped:
            return Unreachable(SKIPPED)
        try:
            snapshot = await self._snapshot(task, entry) if config.version is PushVersion.V03 else None
            notification = Notification(
                notification_id(task, entry.generation, config.id), task, entry.generation, entry.event, snapshot
            )
            request = self._render(config, notification, self._clock.now())
        except StoreUnavailable:
            raise
        except Exception:
            labels = {"task_id": task.task_id, "config_id": config.id, "generation": entry.generation}
            # Return a failed attempt, so that the event is given up after several attempts. An exception would block
            # the later events forever.
            logger.exception("A notification cannot be made.", extra=labels)
            return Unreachable("it cannot be made")
        began = self._clock.now()
        attributes: dict[str, str | int] = {"aion.task_id": task.task_id}
        parent = {"traceparent": label("traceparent"), "tracestate": label("tracestate")}
        with self._traces.span("push", SpanKind.CLIENT, **parent, attributes=attributes) as span:
            outcome = await self._webhooks.post(config.url, request.headers, request.body)
            if not isinstance(outcome, Delivered):
                span.failed(type(outcome).__name__)
        now = self._clock.now()
        self._breaker.record(task.owner, config.url, outcome, (now - began).total_seconds(), now)
        return outcome

    async def _snapshot(self, task: TaskKey, entry: Numbered) -> Task | None:
        """Return the task as of this event, or of the oldest stored event if this one has expired; None if missing."""
        log = self._log
        if (
            log is None
            or log.head.key != task
            or not log.events[0].generation <= entry.generation <= log.head.generation
        ):
            log = await self._tasks.log(task)
            if log is not None and log.events[0].generation > entry.generation:
                log = await self._tasks.every_event(task)
        if log is None:
            return None
        self._log = log if entry.generation < log.head.generation else None
        upto = [each for each in log.events if each.generation <= entry.generation]
        return projection.fold(upto or log.events[:1])


def notification_id(task: TaskKey, generation: int, config_id: str) -> str:
    """Return the `webhook-id` of a notification: the same at each attempt to post this event for this config.

    The id contains no dot, because Standard Webhooks separates the signed parts by dots.
    """
    return f"{task.task_id}_{generation}_{quote(config_id, safe='')}".replace(".", "%2E")
