"""Dead letters of a queue in a SQLite file, marked by the queue as `dead`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from aion_core.clock import Clock
from aion_core.local.sqlite.database import Database
from aion_core.table.times import milliseconds
from aion_tools.operator.dead_letters import DeadLetter

DEAD_LETTER_SECONDS = 14 * 24 * 3600
"""Time from the sending of a message to its expiry as a dead letter, as on AWS (MessageRetentionPeriod)."""


class SQLiteDeadLetters:
    """`DeadLetters` of the queue with this name."""

    def __init__(self, database: Database, queue: str, clock: Clock) -> None:
        self._database, self._queue, self._clock = database, queue, clock

    async def read(self, limit: int) -> list[DeadLetter]:
        """See `DeadLetters.read`. The messages stay visible to other readers."""
        await self._delete_expired()
        statement = "SELECT id, body, sent_at FROM messages WHERE queue = ? AND dead = 1 ORDER BY sent_at, id LIMIT ?"
        rows = await self._database.read(
            lambda connection: connection.execute(statement, (self._queue, limit)).fetchall()
        )
        return [DeadLetter(str(id_), body, datetime.fromtimestamp(sent_at / 1000, UTC)) for id_, body, sent_at in rows]

    async def give_back(self, letters: Sequence[DeadLetter]) -> int:
        """Return 0, because `read` hides no dead letters from other readers in SQLite."""
        return 0

    async def redrive(self) -> None:
        """See `DeadLetters.redrive`. As on AWS, the messages count as sent now."""
        await self._delete_expired()
        now = self._now()
        values = now, now, self._queue
        change = "UPDATE messages SET dead = 0, receives = 0, sent_at = ?, visible_at = ? WHERE queue = ? AND dead = 1"
        await self._database.write(lambda connection: connection.execute(change, values))

    async def drop(self, letter: DeadLetter) -> None:
        """See `DeadLetters.drop`."""
        statement = "DELETE FROM messages WHERE id = ? AND dead = 1"
        await self._database.write(lambda connection: connection.execute(statement, (int(letter.id),)))

    async def _delete_expired(self) -> None:
        values = self._queue, self._now() - DEAD_LETTER_SECONDS * 1000
        statement = "DELETE FROM messages WHERE queue = ? AND dead = 1 AND sent_at <= ?"
        await self._database.write(lambda connection: connection.execute(statement, values))

    def _now(self) -> int:
        return milliseconds(self._clock.now())
