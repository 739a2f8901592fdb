"""The queues and the schedule of a process that is a whole deployment: what SQS and EventBridge do on AWS."""

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
    """Hands the messages of a queue to a function."""

    async def run(self) -> None:
        """Receive messages until `stop`, or until this is cancelled."""
        ...

    def stop(self) -> None:
        """Receive no more messages."""
        ...

    async def join(self) -> None:
        """Return when the messages that were received have been handled."""
        ...


class LocalQueue(Protocol[B_co]):
    """A queue whose messages are handled in this process."""

    def handled_by(self, handle: Callable[[B_co], Awaitable[None]]) -> Sequence[Consumer]:
        """Let each message be handled by this function; return the consumer that has to run for it, if any."""
        ...


class Background:
    """Runs turns, push deliveries and sweeps for as long as a server serves."""

    def __init__(self, sweep: Callable[[], Awaitable[object]], clock: Clock) -> None:
        self._sweep, self._clock = sweep, clock
        self.consumers: Sequence[Consumer] = ()
        """The consumers of the queues; empty where messages are handled as they are sent."""
        self.deadline = Deadline()
        """The end of the turns that run; a server that is told to stop sets its own before it serves."""

    async def run(self) -> None:
        """Consume the queues, and sweep now and each minute, until this is cancelled."""
        await asyncio.gather(self._sweep_each_minute(), *(consumer.run() for consumer in self.consumers))

    def stop(self) -> None:
        """Begin no further turn."""
        for consumer in self.consumers:
            consumer.stop()

    async def join(self) -> None:
        """Return when the turns and deliveries that were begun from queues have ended."""
        await asyncio.gather(*(consumer.join() for consumer in self.consumers))

    async def _sweep_each_minute(self) -> None:
        while True:
            # At once, too: timers may have expired while no server ran.
            try:
                await self._sweep()
            except Exception:  # the next minute is another try
                logger.exception("A sweep has failed.")
            await self._clock.sleep(SWEEP_SECONDS)
