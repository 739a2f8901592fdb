"""Queues of wake-up messages in a SQLite file."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from aion_core.engine.queues import PushWakeUp, WakeUp, body_of, push_body_of, push_wake_up_of, wake_up_of
from aion_core.local.sqlite.consumer import QueueConsumer
from aion_core.local.sqlite.message_queue import SQLiteQueue

B = TypeVar("B", WakeUp, PushWakeUp)

DELIVERIES_AT_ONCE = 16


class _WakeUpQueue(Generic[B]):
    """Queue for wake-up messages of one kind, stored as text in a SQLiteQueue."""

    def __init__(
        self, queue: SQLiteQueue, encode: Callable[[B], str], decode: Callable[[str], B], *, at_once: int
    ) -> None:
        self._queue, self._at_once = queue, at_once
        self._encode: Callable[[B], str] = encode
        self._decode: Callable[[str], B] = decode

    async def enqueue(self, wake_up: B, *, delay: float = 0.0, urgent: bool = False) -> None:
        """See `WorkQueue.enqueue`. An urgent message is received before all others."""
        await self._queue.send(self._encode(wake_up), delay=delay, urgent=urgent)

    async def backlog(self) -> int:
        """See `WorkQueue.backlog`."""
        return await self._queue.visible()

    def enqueue_from_thread(self, wake_up: B, *, delay: float = 0.0) -> None:
        """See `WorkQueue.enqueue_from_thread`."""
        self._queue.send_blocking(self._encode(wake_up), delay=delay)

    def handled_by(self, handle: Callable[[B], Awaitable[None]]) -> "Sequence[QueueConsumer]":
        """Return the consumers needed to call this handler with each message."""

        async def handle_text(body: str) -> None:
            await handle(self._decode(body))

        return [QueueConsumer(self._queue, handle_text, at_once=self._at_once)]


class SQLiteWorkQueue(_WakeUpQueue[WakeUp]):
    """`WorkQueue` on one SQLiteQueue."""

    def __init__(self, queue: SQLiteQueue, *, at_once: int) -> None:
        """Run at most `at_once` turns concurrently in this process."""
        super().__init__(queue, body_of, wake_up_of, at_once=at_once)


class SQLitePushQueue(_WakeUpQueue[PushWakeUp]):
    """`PushQueue` on one SQLiteQueue."""

    def __init__(self, queue: SQLiteQueue) -> None:
        super().__init__(queue, push_body_of, push_wake_up_of, at_once=DELIVERIES_AT_ONCE)
