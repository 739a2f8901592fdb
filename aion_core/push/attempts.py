"""One try of one event for one config: its notification is made and posted, unless its receiver is to be spared."""

import logging
from urllib.parse import quote

from aion_core.errors import StoreUnavailable
from aion_core.ports import (
    Claim,
    Clock,
    Delivered,
    Notification,
    Numbered,
    PostOutcome,
    PushVersion,
    Render,
    SpanKind,
    TaskKey,
    TaskStore,
    Traces,
    Unreachable,
    WebhookClient,
)
from aion_core.protocol.types import Task
from aion_core.push.circuit_breaker import CircuitBreaker
from aion_core.tasks import projection

logger = logging.getLogger(__name__)

SKIPPED = "not tried: its host has just kept other posts of the same owner waiting"
"""What went wrong with a try that was not made."""


class DeliveryAttempts:
    """Makes the tries of this process, and remembers which receivers have kept it waiting."""

    def __init__(self, tasks: TaskStore, webhooks: WebhookClient, render: Render, clock: Clock, traces: Traces) -> None:
        self._tasks, self._webhooks, self._render = tasks, webhooks, render
        self._clock, self._traces = clock, traces
        self._patience = CircuitBreaker()

    async def make(self, claim: Claim, entry: Numbered, *, may_be_skipped: bool) -> PostOutcome:
        """Post the event for the claim's config, once, and return what came of it.

        Where it `may_be_skipped`, and others have just waited for its receiver in vain, it counts as failed unmade.
        Raises StoreUnavailable where the task that a v0.3 receiver is told cannot be read now.
        """
        task = claim.delivery.task
        config = claim.config
        if config is None:
            return Unreachable("what is kept of the config cannot be read")
        if self._patience.is_open(task.owner, config.url, self._clock.now()) and may_be_skipped:
            return Unreachable(SKIPPED)
        try:
            snapshot = await self._snapshot(task, entry) if config.version is PushVersion.V03 else None
            notification = Notification(
                notification_id(task, entry.generation, config.id), task, entry.generation, entry.event, snapshot
            )
            request = self._render(config, notification, at=self._clock.now())
        except StoreUnavailable:
            raise
        except Exception:
            labels = {"task_id": task.task_id, "config_id": config.id, "generation": entry.generation}
            # It will be given up in the end, rather than keep the events behind it for ever.
            logger.exception("A notification cannot be made.", extra=labels)
            return Unreachable("it cannot be made")
        began = self._clock.now()
        with self._traces.span("push", SpanKind.CLIENT, attributes={"aion.task_id": task.task_id}) as span:
            outcome = await self._webhooks.post(config.url, request.headers, request.body)
            if not isinstance(outcome, Delivered):
                span.failed(type(outcome).__name__)
        now = self._clock.now()
        self._patience.note(task.owner, config.url, outcome, (now - began).total_seconds(), now)
        return outcome

    async def _snapshot(self, task: TaskKey, entry: Numbered) -> Task | None:
        """Return the task with this event; as it is later, where the log begins later."""
        log = await self._tasks.log(task)
        if log is not None and log.events[0].generation > entry.generation:
            log = await self._tasks.every_event(task)
        if log is None:
            return None
        upto = [each for each in log.events if each.generation <= entry.generation]
        return projection.fold(upto or log.events[:1])


def notification_id(task: TaskKey, generation: int, config_id: str) -> str:
    """Return what receivers tell repeats by; the same for all tries of an event for a config.

    A dot parts the words of what is signed, and so may not be in it (Standard Webhooks).
    """
    return f"{task.task_id}_{generation}_{quote(config_id, safe='')}".replace(".", "%2E")
