"""Queues of messages in a SQLite file: delay, visibility timeout, a limited number of receives.

Only the standard library is imported: the supervisor of `aion dev` imports this.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aion_core.errors import StoreError, StoreUnavailable

LOCK_SECONDS = 10.0
"""Seconds to wait for another process that writes to the file."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    body TEXT NOT NULL,
    sent_at INTEGER NOT NULL,
    visible_at INTEGER NOT NULL,
    receives INTEGER NOT NULL DEFAULT 0,
    receiver TEXT,
    parked INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS messages_by_time ON messages (queue, parked, visible_at);
"""


class Message(NamedTuple):
    """A message as it was received; times are milliseconds."""

    id: int
    body: str
    sent_at: int
    receives: int
    """How many times it was received, this time included: a later receive makes this one invalid."""


class MessageFile:
    """The queues of one file. Every method is blocking, and may be called by any thread; raises StoreError.

    Several processes may use the file at once. A message that a process receives is invisible until its timeout, or
    until `release` names that process.
    """

    def __init__(self, file: Path, *, receiver: str = "") -> None:
        """`receiver` names this process in the messages that it receives."""
        self._receiver = receiver
        self._lock = threading.Lock()
        with _errors():
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                file, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            # Readers do not block the writer. A commit survives the process, though not a loss of power.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(_SCHEMA)

    def send(self, queue: str, body: str, *, now: int, visible_at: int) -> None:
        """Add a message, which is received at `visible_at` or later."""
        self._run(
            "INSERT INTO messages (queue, body, sent_at, visible_at) VALUES (?, ?, ?, ?)", queue, body, now, visible_at
        )

    def receive(
        self, queue: str, *, now: int, visible_at: int, limit: int, max_receives: int
    ) -> tuple[list[Message], list[Message]]:
        """Return the oldest visible messages, and those that were parked instead: received `max_receives` times before.

        A received message is invisible until `visible_at`.
        """
        visible = "FROM messages WHERE queue = ? AND parked = 0 AND visible_at <= ?"
        if not self._rows(f"SELECT 1 {visible} LIMIT 1", queue, now):
            # Without a write lock: an empty queue is asked many times.
            return [], []
        oldest = f"SELECT id, body, sent_at, receives {visible} ORDER BY visible_at, id LIMIT ?"
        with self._transaction() as connection:
            found = [Message(*row) for row in connection.execute(oldest, (queue, now, limit))]
            parked = [message for message in found if message.receives >= max_receives]
            received = [message for message in found if message.receives < max_receives]
            connection.executemany(
                "UPDATE messages SET parked = 1, receiver = NULL WHERE id = ?", [(message.id,) for message in parked]
            )
            connection.executemany(
                "UPDATE messages SET visible_at = ?, receives = receives + 1, receiver = ? WHERE id = ?",
                [(visible_at, self._receiver, message.id) for message in received],
            )
        return [message._replace(receives=message.receives + 1) for message in received], parked

    def next_at(self, queue: str) -> int | None:
        """Return when the next message of the queue is visible, None without one."""
        rows = self._rows("SELECT min(visible_at) FROM messages WHERE queue = ? AND parked = 0", queue)
        return rows[0][0] if rows else None

    def hide(self, messages: Sequence[Message], *, visible_at: int) -> None:
        """Let the messages be visible at this time, if nobody has received them since."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE messages SET visible_at = ? WHERE id = ? AND receives = ?",
                [(visible_at, message.id, message.receives) for message in messages],
            )

    def delete(self, message: Message) -> None:
        """Delete the message, if nobody has received it since."""
        self._run("DELETE FROM messages WHERE id = ? AND receives = ?", message.id, message.receives)

    def release(self, receiver: str | None = None) -> None:
        """Make the messages visible that this process received, or any: it has ended."""
        change = "UPDATE messages SET visible_at = 0, receiver = NULL WHERE receiver"
        self._run(f"{change} IS NOT NULL") if receiver is None else self._run(f"{change} = ?", receiver)

    def parked(self, queue: str, limit: int) -> list[Message]:
        """Return parked messages, the oldest first."""
        columns = "SELECT id, body, sent_at, receives FROM messages"
        rows = self._rows(f"{columns} WHERE queue = ? AND parked = 1 ORDER BY sent_at, id LIMIT ?", queue, limit)
        return [Message(*row) for row in rows]

    def send_again(self, message_id: int, *, now: int) -> None:
        """Make a parked message visible, with all its receives to come."""
        self._run(
            "UPDATE messages SET parked = 0, receives = 0, visible_at = ? WHERE id = ? AND parked = 1", now, message_id
        )

    def drop(self, message_id: int) -> None:
        """Delete a parked message, there or not."""
        self._run("DELETE FROM messages WHERE id = ? AND parked = 1", message_id)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _run(self, statement: str, *values: Any) -> None:
        with self._lock, _errors():
            self._connection.execute(statement, values)

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self._lock, _errors():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _errors():
            # At once: a transaction that begins as a reader is refused where another process has written since.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        # Locked, full or gone; or closed.
        raise StoreUnavailable(f"The SQLite file cannot be used: {error}.") from error
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"The SQLite file cannot be used: {error}.") from error
