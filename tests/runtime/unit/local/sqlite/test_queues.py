"""Wake-up messages in a SQLite file: delays, retries, dead letters, several processes."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from aion_core.engine.queues import WakeUp, wake_up_of
from aion_core.errors import StoreUnavailable
from aion_core.local.sqlite.consumer import QueueConsumer
from aion_core.local.sqlite.database import Database
from aion_core.local.sqlite.message_queue import (
    MAX_RECEIVES,
    VISIBILITY_SECONDS,
    QueueMessage,
    SQLiteQueue,
    open_queues,
    release_messages,
)
from aion_core.local.sqlite.queues import SQLiteWorkQueue
from aion_core.table.keys import ContextKey
from aion_tools.operator.sqlite_dead_letters import SQLiteDeadLetters
from tests.support.clock import ManualClock

WAKE_UP = WakeUp(ContextKey("owner", "echo", "c-1"), 1)


class QueueProcess:
    """Process with a queue and a consumer. Tests make its handler fail or wait."""

    def __init__(self, path: Path, clock: ManualClock, *, at_once: int = 4) -> None:
        self.file = open_queues(path)
        self.queue = SQLiteQueue(self.file, "task", clock)
        self.letters = SQLiteDeadLetters(self.file, "task", clock)
        self.work_queue = SQLiteWorkQueue(self.queue, at_once=at_once)
        self.consumer = QueueConsumer(self.queue, self._handle, at_once=at_once)
        self.handled: list[WakeUp] = []
        self.failures = 0
        self.go = asyncio.Event()
        self.go.set()
        self.most = self._now = 0

    async def turn(self) -> int:
        """Receive and handle the visible messages. Return the number of messages."""
        received = await self.consumer.receive()
        await self.consumer.join()
        return received

    async def _handle(self, body: str) -> None:
        self._now += 1
        self.most = max(self.most, self._now)
        await self.go.wait()
        self._now -= 1
        if self.failures:
            self.failures -= 1
            raise ValueError("not now")
        self.handled.append(wake_up_of(body))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "aion.db"


@pytest.fixture
def one(path: Path, clock: ManualClock) -> Iterator[QueueProcess]:
    process = QueueProcess(path, clock)
    yield process
    process.file.close()


@pytest.fixture
def other(path: Path, clock: ManualClock) -> Iterator[QueueProcess]:
    process = QueueProcess(path, clock)
    yield process
    process.file.close()


async def test_messages_are_handled_once_in_order_of_time(
    one: QueueProcess, other: QueueProcess, clock: ManualClock
) -> None:
    for fence, delay in ((3, 9.0), (2, 5.0), (1, 0.0)):
        await one.work_queue.enqueue(WakeUp(WAKE_UP.context, fence), delay=delay)
    clock.move(10)
    await other.turn()
    assert [wake_up.fence for wake_up in other.handled] == [1, 2, 3]
    assert await one.turn() == 0


async def test_retry_delay_grows_with_each_failed_receive(one: QueueProcess, clock: ManualClock) -> None:
    one.failures = 2
    await one.work_queue.enqueue(WAKE_UP)
    for seconds, received in ((0.0, 1), (0.9, 0), (0.2, 1), (1.8, 0), (0.3, 1), (9000.0, 0)):
        clock.move(seconds)
        assert await one.turn() == received
    assert one.handled == [WAKE_UP]


async def test_message_that_always_fails_becomes_dead_letter(
    one: QueueProcess, other: QueueProcess, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    one.failures = 100
    await one.work_queue.enqueue(WAKE_UP)
    for _ in range(MAX_RECEIVES + 2):
        await one.turn()
        clock.move(3600)
    assert one.failures == 100 - MAX_RECEIVES
    assert "failed 5 times and is a dead letter" in caplog.text
    (letter,) = await other.letters.read(10)
    assert wake_up_of(letter.body) == WAKE_UP
    await other.letters.redrive()
    assert await other.letters.read(10) == []
    one.failures = 1
    await one.turn()
    clock.move(2)
    await one.turn()
    assert one.handled == [WAKE_UP], "it has all its receives again"


async def test_failing_message_does_not_delay_other_messages(one: QueueProcess) -> None:
    one.failures = 1
    await one.work_queue.enqueue(WAKE_UP)
    await one.turn()
    await one.work_queue.enqueue(WakeUp(WAKE_UP.context, 2))
    await one.turn()
    assert [wake_up.fence for wake_up in one.handled] == [2]


async def test_message_is_invisible_while_it_is_handled(
    one: QueueProcess, other: QueueProcess, clock: ManualClock
) -> None:
    one.go.clear()
    await one.work_queue.enqueue(WAKE_UP)
    await one.consumer.receive()
    for _ in range(5):
        clock.move(VISIBILITY_SECONDS / 2)
        await one.consumer.receive()
        assert await other.turn() == 0
    one.go.set()
    await one.consumer.join()
    clock.move(VISIBILITY_SECONDS * 2)
    assert await other.turn() == 0
    assert one.handled == [WAKE_UP]


async def test_message_of_silent_process_is_visible_after_timeout(
    one: QueueProcess, other: QueueProcess, clock: ManualClock
) -> None:
    one.go.clear()
    await one.work_queue.enqueue(WAKE_UP)
    await one.consumer.receive()
    clock.move(VISIBILITY_SECONDS - 1)
    assert await other.turn() == 0
    clock.move(2)
    assert await other.turn() == 1
    one.go.set()
    await one.consumer.join()


@pytest.mark.parametrize(
    "act",
    [SQLiteQueue.delete, SQLiteQueue.retry, lambda queue, message: queue.prolong([message])],
    ids=["delete", "retry", "prolong"],
)
async def test_slow_receiver_does_not_change_message_that_another_has_received(
    one: QueueProcess,
    other: QueueProcess,
    clock: ManualClock,
    act: Callable[[SQLiteQueue, QueueMessage], Awaitable[None]],
) -> None:
    await one.work_queue.enqueue(WAKE_UP)
    (mine,) = await one.queue.receive(1)
    clock.move(VISIBILITY_SECONDS + 1)
    (theirs,) = await other.queue.receive(1)
    clock.move(VISIBILITY_SECONDS - 1)
    await act(one.queue, mine)
    assert await one.queue.receive(1) == []
    clock.move(2)
    (again,) = await one.queue.receive(1)
    assert (again.id, again.receives) == (theirs.id, 3)


async def test_messages_of_ended_processes_are_released_at_once(
    path: Path, one: QueueProcess, other: QueueProcess
) -> None:
    for process, fence in ((one, 1), (other, 2)):
        process.go.clear()
        await process.work_queue.enqueue(WakeUp(WAKE_UP.context, fence))
        await process.consumer.receive()
    release_messages(path)
    third = QueueProcess(path, other.queue.clock)  # type: ignore[arg-type]
    await third.turn()
    assert sorted(wake_up.fence for wake_up in third.handled) == [1, 2]
    third.file.close()


async def test_killed_process_loses_no_message(path: Path, one: QueueProcess) -> None:
    for fence in range(20):
        await one.work_queue.enqueue(WakeUp(WAKE_UP.context, fence))
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom aion_core.clock import SystemClock\n"
        "from aion_core.local.sqlite.message_queue import SQLiteQueue, open_queues\n"
        "async def main():\n"
        "    database = open_queues(Path(sys.argv[1]))\n"
        "    queue = SQLiteQueue(database, 'task', SystemClock())\n"
        "    messages = await queue.receive(20)\n"
        "    for message in messages[:5]:\n        await queue.delete(message)\n"
        "    with database.writing() as connection:\n"
        "        connection.execute('DELETE FROM messages')\n"
        "        print(len(messages), flush=True)\n        sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "20\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    release_messages(path)
    while await one.turn():
        pass
    assert sorted(wake_up.fence for wake_up in one.handled) == list(range(5, 20))


async def test_two_consumers_of_queue_handle_each_message_once(one: QueueProcess, other: QueueProcess) -> None:
    for fence in range(200):
        await one.work_queue.enqueue(WakeUp(WAKE_UP.context, fence))

    async def all_of(process: QueueProcess) -> None:
        while await process.turn():
            pass

    await asyncio.gather(all_of(one), all_of(other))
    assert sorted(wake_up.fence for wake_up in [*one.handled, *other.handled]) == list(range(200))
    assert one.handled, "each had some"
    assert other.handled, "each had some"


async def test_consumer_limits_concurrent_handlers(path: Path, clock: ManualClock) -> None:
    process = QueueProcess(path, clock, at_once=16)
    for fence in range(40):
        await process.work_queue.enqueue(WakeUp(WAKE_UP.context, fence))
    process.go.clear()
    assert await process.consumer.receive() == 16
    await asyncio.sleep(0)
    assert await process.consumer.receive() == 0
    process.go.set()
    await process.consumer.join()
    while await process.turn():
        pass
    assert (len(process.handled), process.most) == (40, 16)
    process.file.close()


async def test_message_enqueued_in_same_process_wakes_consumer(one: QueueProcess) -> None:
    """The clock stands still, so the consumer does not poll: only the message can wake it."""
    running = asyncio.create_task(one.consumer.run())
    for _ in range(3):
        before = len(one.handled)
        thread = threading.Thread(target=one.work_queue.enqueue_from_thread, args=(WAKE_UP,))
        thread.start()
        while len(one.handled) == before:
            await asyncio.sleep(0)
        thread.join()
    one.consumer.stop()
    await running
    await one.consumer.join()


async def test_message_enqueued_by_other_process_wakes_consumer(
    one: QueueProcess, other: QueueProcess, clock: ManualClock
) -> None:
    running = asyncio.create_task(one.consumer.run())
    await other.work_queue.enqueue(WAKE_UP, delay=3)
    while not one.handled:
        clock.move(0.1)
        await asyncio.sleep(0)
    one.consumer.stop()
    await running


async def test_stopped_consumer_receives_nothing(one: QueueProcess, other: QueueProcess) -> None:
    one.consumer.stop()
    await one.consumer.run()
    await one.work_queue.enqueue(WAKE_UP)
    assert await one.turn() == 0
    assert await other.turn() == 1


async def test_messages_outlive_their_process(path: Path, clock: ManualClock) -> None:
    first = QueueProcess(path, clock)
    await first.work_queue.enqueue(WAKE_UP, delay=900)
    await first.work_queue.enqueue(WAKE_UP, delay=10_000)
    first.file.close()
    second = QueueProcess(path, clock)
    clock.move(899)
    assert await second.turn() == 0
    clock.move(2)
    assert await second.turn() == 2, "no delay is longer than on SQS"
    second.file.close()


async def test_send_to_locked_database_raises_store_unavailable(
    path: Path, one: QueueProcess, clock: ManualClock
) -> None:
    impatient = SQLiteQueue(Database(path, "", busy_seconds=0.05), "task", clock)
    with one.file.writing(), pytest.raises(StoreUnavailable):
        impatient.send_blocking("{}")


async def test_consumer_survives_unreadable_file(
    one: QueueProcess, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with one.file.writing() as connection:
        connection.execute("ALTER TABLE messages RENAME TO gone")
    running = asyncio.create_task(one.consumer.run())
    while "cannot be read" not in caplog.text:
        await asyncio.sleep(0)
    with one.file.writing() as connection:
        connection.execute("ALTER TABLE gone RENAME TO messages")
    await one.work_queue.enqueue(WAKE_UP)
    while not one.handled:
        await asyncio.sleep(0)
    one.consumer.stop()
    await running
