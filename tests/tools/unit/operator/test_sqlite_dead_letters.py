"""Dead letters of a SQLite queue: read, redriven, dropped and expired."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aion_core.local.sqlite.message_queue import MAX_RECEIVES, VISIBILITY_SECONDS, SQLiteQueue, open_queues
from aion_tools.operator.sqlite_dead_letters import SQLiteDeadLetters
from tests.support.clock import ManualClock


class QueueWithLetters:
    """Queue whose messages nobody handles, and its dead letters."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.file, self._clock = open_queues(path), clock
        self.queue = SQLiteQueue(self.file, "task", clock)
        self.letters = SQLiteDeadLetters(self.file, "task", clock)

    async def receive_until_dead(self) -> None:
        """Receive the message until it becomes a dead letter."""
        for _ in range(MAX_RECEIVES + 1):
            await self.queue.receive(10)
            self._clock.move(VISIBILITY_SECONDS)


@pytest.fixture
async def dead(tmp_path: Path, clock: ManualClock) -> AsyncIterator[QueueWithLetters]:
    made = QueueWithLetters(tmp_path / "aion.db", clock)
    await made.queue.send("hello")
    await made.receive_until_dead()
    yield made
    made.file.close()


async def test_dropped_dead_letter_is_not_redriven(dead: QueueWithLetters) -> None:
    (letter,) = await dead.letters.read(10)
    await dead.letters.drop(letter)
    await dead.letters.redrive()
    assert (await dead.letters.read(10), await dead.queue.receive(10)) == ([], [])


async def test_dead_letter_expires_after_two_weeks(dead: QueueWithLetters, clock: ManualClock) -> None:
    clock.move(14 * 24 * 3600 - 3600)
    assert [letter.body for letter in await dead.letters.read(10)] == ["hello"]
    clock.move(3600)
    await dead.letters.redrive()
    assert (await dead.letters.read(10), await dead.queue.receive(10)) == ([], [])


async def test_redriven_message_counts_as_sent_anew(dead: QueueWithLetters, clock: ManualClock) -> None:
    for _ in range(2):
        clock.move(10 * 24 * 3600)
        assert len(await dead.letters.read(10)) == 1
        await dead.letters.redrive()
        await dead.receive_until_dead()
