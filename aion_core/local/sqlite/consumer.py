"""Consumer of a queue in a SQLite file."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aion_core.clock import within
from aion_core.errors import StoreError
from aion_core.local.sqlite.message_queue import VISIBILITY_SECONDS, QueueMessage, SQLiteQueue

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""Longest time in seconds before a consumer notices another process's message."""


class QueueConsumer:
    """Consumer of a SQLiteQueue, running several handlers concurrently.

    A message is deleted after its handler has returned. If the handler raises or this process ends, the message becomes
    visible again later.
    """

    def __init__(self, queue: SQLiteQueue, handle: Callable[[str], Awaitable[None]], *, at_once: int) -> None:
        """Call `handle` with the text of each message."""
        self._queue, self._handle, self._at_once = queue, handle, at_once
        self._handling: dict[asyncio.Task[None], QueueMessage] = {}
        self._noticed = asyncio.Event()
        self._stopped = False
        self._prolonged_at = queue.clock.now()

    async def run(self) -> None:
        """Receive messages until `stop` or cancellation. Running handlers continue afterwards."""
        loop = asyncio.get_running_loop()
        # A new event, because that of an earlier run belongs to its event loop: tests serve one app in several.
        self._noticed = asyncio.Event()

        def notice() -> None:
            # Ignore a message sent by an agent's thread after the end of the server.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._noticed.set)

        self._queue.sent = notice
        while not self._stopped:
            self._noticed.clear()
            seconds = POLL_SECONDS
            try:
                await self.receive()
                if len(self._handling) < self._at_once and (to_next := await self._queue.seconds_to_next()) is not None:
                    seconds = min(seconds, to_next)
            except StoreError as error:
                logger.error("The %s queue cannot be read: %s", self._queue.name, error)
                seconds = 1.0
            await self._sleep(seconds)

    async def receive(self) -> int:
        """Receive one message for each free handler, and start the handlers. Return the number of messages."""
        now = self._queue.clock.now()
        if self._handling and (now - self._prolonged_at).total_seconds() >= VISIBILITY_SECONDS / 3:
            self._prolonged_at = now
            await self._queue.prolong(list(self._handling.values()))
        free = self._at_once - len(self._handling)
        received = await self._queue.receive(free) if free > 0 and not self._stopped else []
        for message in received:
            task = asyncio.create_task(self._work(message))
            self._handling[task] = message
            task.add_done_callback(self._ended)
        return len(received)

    def stop(self) -> None:
        """Receive no more messages."""
        self._stopped = True
        self._noticed.set()

    async def join(self) -> None:
        """Wait until all running handlers have ended."""
        while self._handling:
            await asyncio.wait(self._handling)

    async def _work(self, message: QueueMessage) -> None:
        acknowledge = self._queue.delete
        try:
            await self._handle(message.body)
        except Exception:  # the handler of a message may raise any exception
            logger.exception("A message of the %s queue was not handled.", self._queue.name)
            acknowledge = self._queue.retry
        try:
            await acknowledge(message)
        except StoreError as error:
            logger.warning("A message of the %s queue will be received again: %s", self._queue.name, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._handling[task]
        self._noticed.set()

    async def _sleep(self, seconds: float) -> None:
        """Sleep until the time is over, this process sends a message, or a handler ends."""
        await within(self._queue.clock, seconds, self._noticed.wait())
