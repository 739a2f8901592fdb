"""Queue consumers and sweep schedule of a single-process deployment, in place of SQS and EventBridge."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from aion_core.ports import Clock
from aion_core.tasks.call import Deadline

logger = logging.getLogger(__name__)

B_co = TypeVar("B_co", covariant=True)

SWEEP_SECONDS = 60.0
"""Seconds between two sweeps, as in the template's schedule."""


class Consumer(Protocol):
    """Task that receives the messages of a queue and calls a function with each."""

    async def run(self) -> None:
        """Receive messages until `stop` or cancellation."""
        ...

    def stop(self) -> None:
        """Stop receiving messages."""
        ...

    async def join(self) -> None:
        """Wait until all received messages are handled."""
        ...


class LocalQueue(Protocol[B_co]):
    """Queue with messages handled in this process."""

    def answered_by(self, handle: Callable[[B_co], Awaitable[None]]) -> Sequence[Consumer]:
        """Register the handler of messages; return the consumers to run for it, if any."""
        ...


class Background:
    """Turns, push deliveries and sweeps beside a server."""

    def __init__(self, sweep: Callable[[], Awaitable[object]], clock: Clock) -> None:
        self._sweep, self._clock = sweep, clock
        self.consumers: Sequence[Consumer] = ()
        """Consumers of the queues; empty if messages are handled as they are sent."""
        self.deadline = Deadline()
        """Deadline of running turns. A stoppable server sets its own before it serves."""

    async def run(self) -> None:
        """Consume the queues and sweep once a minute, until cancelled."""
        await asyncio.gather(self._sweep_each_minute(), *(consumer.run() for consumer in self.consumers))

    def stop(self) -> None:
        """Start no further turn."""
        for consumer in self.consumers:
            consumer.stop()

    async def join(self) -> None:
        """Wait until all turns and deliveries from queues have ended."""
        await asyncio.gather(*(consumer.join() for consumer in self.consumers))

    async def _sweep_each_minute(self) -> None:
        while True:
            # The first sweep runs at once: timers may have expired while no server was running.
            try:
                await self._sweep()
            except Exception:  # the next sweep tries again
                logger.exception("A sweep has failed.")
            await self._clock.sleep(SWEEP_SECONDS)
