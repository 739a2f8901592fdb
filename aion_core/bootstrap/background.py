"""Background work of a single-process server, which takes the place of SQS and the schedule on AWS."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from uuid import uuid4

from aion_core import log
from aion_core.bootstrap.stores import Stores
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.clock import Clock
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.engine.runner.worker import Worker
from aion_core.engine.sweep import Sweep
from aion_core.settings import Settings

if TYPE_CHECKING:
    from aion_core.local.sqlite.consumer import QueueConsumer
    from aion_core.push.delivery import PushDelivery

logger = logging.getLogger(__name__)

B_co = TypeVar("B_co", covariant=True)

SWEEP_SECONDS = 60.0
"""Seconds between two sweeps, as in the template's schedule."""


class LocalQueue(Protocol[B_co]):
    """Protocol for a queue in this process, which takes the place of SQS in a single-process deployment."""

    def handled_by(self, handle: Callable[[B_co], Awaitable[None]]) -> "Sequence[QueueConsumer]":
        """Register the function that handles messages. Return the consumers that the caller must run, if any."""
        ...


class Background:
    """Background work of a single-process server: turns, push deliveries and sweeps."""

    def __init__(self, sweep: Callable[[], Awaitable[object]], clock: Clock, *, lease_seconds: float) -> None:
        self._sweep, self._clock, self._lease_seconds = sweep, clock, lease_seconds
        self.consumers: Sequence[QueueConsumer] = ()
        """Consumers of the local queues. Empty if the queues pass each message to its handler when it is sent."""
        self.deadline: Deadline | None = None
        """Deadline of running turns, if there is one. A server that can be stopped sets it before it serves."""

    @property
    def is_stopping(self) -> bool:
        """True once the server has asked its turns to end."""
        return self.deadline is not None and self.deadline.now.is_set()

    async def run(self) -> None:
        """Consume the queues until cancelled. Sweep at once, then after a lease's duration, then once a minute."""
        await asyncio.gather(self._sweep_each_minute(), *(consumer.run() for consumer in self.consumers))

    def stop(self) -> None:
        """Stop receiving messages from the queues, so that no further turn starts."""
        for consumer in self.consumers:
            consumer.stop()

    async def join(self) -> None:
        """Wait until all turns and deliveries from queues have ended."""
        await asyncio.gather(*(consumer.join() for consumer in self.consumers))

    async def _sweep_each_minute(self) -> None:
        # Sweep at once, because timers may have expired while no server was running. Sweep again after a lease's
        # duration, because a killed server may have left a lease without a wake-up message.
        for pause in chain((min(self._lease_seconds, SWEEP_SECONDS),), repeat(SWEEP_SECONDS)):
            try:
                await self._sweep()
            except Exception:  # catch every exception, because the next sweep repeats the work
                logger.exception("A sweep has failed.")
            await self._clock.sleep(pause)


def build_background(
    settings: Settings, stores: Stores, worker: Worker, clock: Clock, telemetry: Telemetry
) -> Background:
    """Return the background work of a single-process server, with a consumer for each local queue."""
    push = stores.push
    assert push is not None  # noqa: S101  # a local deployment always has push notifications
    sweep = Sweep(
        stores.tasks,
        stores.work_queue,
        push.configs,
        push.queue,
        remote_calls=stores.tasks.remote_calls,
        metrics=telemetry.metrics,
    )
    background = Background(sweep.once, clock, lease_seconds=settings.lease_seconds)

    async def run_turn(wake_up: WakeUp) -> None:
        # Set the log labels outside of the block, because the queue logs a failure of this function after the block.
        log.note(context_id=wake_up.context.context_id, agent=wake_up.context.agent)
        with log.request(str(uuid4())):
            await telemetry.flushed(worker.handle(wake_up, deadline=background.deadline))

    @cache
    def delivery() -> "PushDelivery":
        # Import this and its HTTP client only on first use, because most tasks have no webhook.
        from aion_core.bootstrap.push import push_delivery

        # Let a stopping process release its claims, because the next process waits for the end of a claim.
        return push_delivery(settings, stores.tasks, push, clock, telemetry, stops=lambda: background.is_stopping)

    async def deliver(wake_up: PushWakeUp) -> None:
        log.note(task_id=wake_up.task.task_id)
        with log.request(str(uuid4())):
            await telemetry.flushed(delivery().deliver(wake_up))

    turns, deliveries = (
        cast("LocalQueue[WakeUp]", stores.work_queue),
        cast("LocalQueue[PushWakeUp]", push.queue),
    )
    background.consumers = [*turns.handled_by(run_turn), *deliveries.handled_by(deliver)]
    return background
