"""Queue of messages in a SQLite file, with delays, visibility timeouts and dead letters."""

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from aion_core.clock import Clock
from aion_core.engine.queues import limited
from aion_core.local.sqlite.database import Database
from aion_core.table.times import milliseconds

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

FIRST_DELAY_SECONDS = 1.0
"""Seconds before a failed message is visible again. Each further receive doubles the delay."""


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


def release_messages(file: Path) -> None:
    """Make received messages visible again. Call this when the processes that received them have ended."""
    change = "UPDATE messages SET visible_at = 0, receiver = '' WHERE receiver != ''"
    database = open_queues(file)
    try:
        database.write_blocking(lambda connection: connection.execute(change))
    finally:
        database.close()


class SQLiteQueue:
    """Queue with delay, visibility timeout and a limited number of receives, for several processes.

    The queue also stores its dead letters; `aion dlq` reads them. Every method may raise StoreError.
    """

    def __init__(self, database: Database, name: str, clock: Clock) -> None:
        self._database, self.name, self.clock = database, name, clock
        self._receiver = str(os.getpid())
        """Mark of received messages, for `release_messages`."""
        self.sent: Callable[[], None] = lambda: None
        """Callback after each message sent by this process, called in the sender's thread."""

    async def send(self, body: str, *, delay: float = 0.0, urgent: bool = False) -> None:
        """Send a message with this text. It becomes visible after `delay` seconds, at most 900.

        An urgent message is received before those that are visible, and has no delay.
        """
        await self._database.write(self._insert(body, delay, urgent=urgent))
        self.sent()

    def send_blocking(self, body: str, *, delay: float = 0.0) -> None:
        """Send a message in a blocking call. See `send`."""
        self._database.write_blocking(self._insert(body, delay))
        self.sent()

    def _insert(self, body: str, delay: float, *, urgent: bool = False) -> Callable[[sqlite3.Connection], object]:
        now = self._now()
        visible_at = 0 if urgent else now + round(limited(delay) * 1000)
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

    async def visible(self) -> int:
        """Return the number of messages that can be received now."""
        statement = "SELECT count(*) FROM messages WHERE queue = ? AND dead = 0 AND visible_at <= ?"
        values = self.name, self._now()
        [(count,)] = await self._database.read(lambda connection: connection.execute(statement, values).fetchall())
        return int(count)

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
        await self._hide([message], self._now() + round(FIRST_DELAY_SECONDS * 2 ** (message.receives - 1) * 1000))

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
        return milliseconds(self.clock.now())
