"""Queues of wake-up messages in a SQLite file, with their consumers and dead letters."""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from aion_core.clock import Clock
from aion_core.engine.queues import (
    PushWakeUp,
    WakeUp,
    body_of,
    limited,
    push_body_of,
    push_wake_up_of,
    wake_up_of,
)
from aion_core.errors import StoreError
from aion_core.local.sqlite.database import Database

logger = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, body TEXT NOT NULL, sent_at INTEGER NOT NULL,
    visible_at INTEGER NOT NULL, receives INTEGER NOT NULL, receiver TEXT NOT NULL, dead INTEGER NOT NULL
);
CREATE INDEX messages_by_time ON messages (queue, dead, visible_at)
"""

_MESSAGE = "SELECT id, body, sent_at, receives FROM messages"

MAX_RECEIVES = 5
"""Number of receives after which a message becomes a dead letter. AWS counts throttled receives too, so its limit is
higher."""

VISIBILITY_SECONDS = 60.0
"""Visibility timeout of a received message. The consumer prolongs it while the message's handler runs."""

RETRY_SECONDS = 1.0
"""Seconds before a failed message is visible again. Each further receive doubles the delay."""

POLL_SECONDS = 0.2
"""Longest time in seconds before a consumer notices another process's message."""

DELIVERIES_AT_ONCE = 16

B = TypeVar("B", WakeUp, PushWakeUp)


class QueueMessage(NamedTuple):
    """Received message or dead letter of a queue."""

    id: int
    body: str
    sent_at: int
    """Time of sending, in milliseconds since 1970."""
    receives: int
    """Number of receives so far. It changes with a later receive, and then this receiver cannot delete the message."""


def open_queues(file: Path) -> Database:
    """Open the SQLite file of the queues, and create it if missing."""
    return Database(file, _SCHEMA)


def release_messages(file: Path, receiver: str = "") -> None:
    """Make messages received by the ended process `receiver` visible again, or by any process if `receiver` is ""."""
    change = "UPDATE messages SET visible_at = 0, receiver = '' WHERE receiver != ''"
    database = open_queues(file)
    try:
        database.write_blocking(
            lambda connection: (
                connection.execute(f"{change} AND receiver = ?", (receiver,))
                if receiver
                else connection.execute(change)
            )
        )
    finally:
        database.close()


class SQLiteQueue:
    """Queue with delay, visibility timeout and a limited number of receives, for several processes.

    The queue also stores its dead letters; `aion dlq` reads them. Every method may raise StoreError.
    """

    def __init__(self, database: Database, name: str, clock: Clock, *, receiver: str = "") -> None:
        """Mark received messages with `receiver`, by default this process's id, for `release_messages`."""
        self._database, self.name, self.clock = database, name, clock
        self._receiver = receiver or str(os.getpid())
        self.sent: Callable[[], None] = lambda: None
        """Callback after each message sent by this process, called in the sender's thread."""

    async def send(self, body: str, *, delay: float = 0.0) -> None:
        """Send a message with this text. It becomes visible after `delay` seconds, at most 900."""
        await self._database.write(self._insert(body, delay))
        self.sent()

    def send_blocking(self, body: str, *, delay: float = 0.0) -> None:
        """Send a message in a blocking call. See `send`."""
        self._database.write_blocking(self._insert(body, delay))
        self.sent()

    def _insert(self, body: str, delay: float) -> Callable[[sqlite3.Connection], object]:
        now = self._now()
        visible_at = now + round(limited(delay) * 1000)
        columns = "INSERT INTO messages (queue, body, sent_at, visible_at, receives, receiver, dead)"
        values = (self.name, body, now, visible_at)
        return lambda connection: connection.execute(f"{columns} VALUES (?, ?, ?, ?, 0, '', 0)", values)

    async def receive(self, limit: int) -> list[QueueMessage]:
        """Return the oldest visible messages and hide them. After MAX_RECEIVES receives, a message is a dead letter."""
        # Do not take the write lock for an empty queue, which is the usual case.
        if await self.seconds_to_next() != 0.0:
            return []
        now = self._now()

        def work(connection: sqlite3.Connection) -> list[QueueMessage]:
            oldest = f"{_MESSAGE} WHERE queue = ? AND dead = 0 AND visible_at <= ? ORDER BY visible_at, id LIMIT ?"
            found = [QueueMessage(*row) for row in connection.execute(oldest, (self.name, now, limit))]
            for message in found:
                is_dead = message.receives >= MAX_RECEIVES
                connection.execute(
                    "UPDATE messages SET dead = ?, receives = ?, visible_at = ?, receiver = ? WHERE id = ?",
                    (
                        is_dead,
                        message.receives + (not is_dead),
                        self._hidden_until(),
                        "" if is_dead else self._receiver,
                        message.id,
                    ),
                )
            return found

        found = await self._database.write(work)
        received = [
            message._replace(receives=message.receives + 1) for message in found if message.receives < MAX_RECEIVES
        ]
        for message in found:
            if message.receives >= MAX_RECEIVES:
                logger.error(
                    "A message of the %s queue failed %d times and is a dead letter; `aion dlq list` shows it.",
                    self.name,
                    message.receives,
                )
        return received

    async def seconds_to_next(self) -> float | None:
        """Return the seconds until the next message is visible, or None if the queue is empty."""
        statement = "SELECT min(visible_at) FROM messages WHERE queue = ? AND dead = 0"
        [(at,)] = await self._database.read(lambda connection: connection.execute(statement, (self.name,)).fetchall())
        return None if at is None else max(0, at - self._now()) / 1000

    async def prolong(self, messages: Sequence[QueueMessage]) -> None:
        """Restart the visibility timeout of messages in progress."""
        await self._hide(messages, self._hidden_until())

    async def retry(self, message: QueueMessage) -> None:
        """Make a failed message visible again after a delay."""
        await self._hide([message], self._now() + round(RETRY_SECONDS * 2 ** (message.receives - 1) * 1000))

    async def _hide(self, messages: Sequence[QueueMessage], until: int) -> None:
        values = [(until, message.id, message.receives) for message in messages]
        change = "UPDATE messages SET visible_at = ? WHERE id = ? AND receives = ?"
        await self._database.write(lambda connection: connection.executemany(change, values))

    async def delete(self, message: QueueMessage) -> None:
        """Delete a handled message, unless another consumer has received it since."""
        values = message.id, message.receives
        statement = "DELETE FROM messages WHERE id = ? AND receives = ?"
        await self._database.write(lambda connection: connection.execute(statement, values))

    def _hidden_until(self) -> int:
        return self._now() + round(VISIBILITY_SECONDS * 1000)

    def _now(self) -> int:
        return int(self.clock.now().timestamp() * 1000)


class _WakeUpQueue(Generic[B]):
    """Queue for wake-up messages of one kind, stored as text in a SQLiteQueue."""

    def __init__(
        self, queue: SQLiteQueue, encode: Callable[[B], str], decode: Callable[[str], B], *, at_once: int
    ) -> None:
        self._queue, self._at_once = queue, at_once
        self._encode: Callable[[B], str] = encode
        self._decode: Callable[[str], B] = decode

    async def enqueue(self, wake_up: B, *, delay: float = 0.0) -> None:
        """See `WorkQueue.enqueue`."""
        await self._queue.send(self._encode(wake_up), delay=delay)

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
        waiting = [
            asyncio.ensure_future(self._queue.clock.sleep(seconds)),
            asyncio.ensure_future(self._noticed.wait()),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
