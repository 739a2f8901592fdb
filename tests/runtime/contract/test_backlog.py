"""Sweep with many waiting turns, on each table and queue: it finds dead leases and lost messages, and nothing else."""

import itertools
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aion_core.aws.client import AwsClient
from aion_core.aws.queues import SQSWorkQueue
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.queues import WakeUp, WorkQueue, wake_up_of
from aion_core.engine.sweep import AT_ONCE, QUEUED_AT_ONCE, QUEUED_SECONDS, Sweep
from aion_core.local.sqlite.message_queue import SQLiteQueue, open_queues
from aion_core.local.sqlite.queues import SQLiteWorkQueue
from aion_core.telemetry import Metric
from tests.support import databases
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation, of
from tests.support.databases import Stack
from tests.support.metrics import MemoryMetrics
from tests.support.stores import LEASE_SECONDS, store_of, table_of

EVERY = 60.0
"""Seconds between two sweeps."""

MANY = AT_ONCE + 40
"""More contexts than one sweep wakes."""


@dataclass
class Backlog:
    """Contexts whose turns wait, each with its message in the queue, and no worker."""

    chat: StoreConversation
    queue: WorkQueue
    receive: Callable[[], Awaitable[WakeUp | None]]
    """Receive and delete the next message, None if none is visible."""
    is_ordered: bool
    """True if an urgent message is received first. SQS promises no order, and moto delivers in the order of arrival."""

    def __post_init__(self) -> None:
        self.metrics = MemoryMetrics()
        self.sweep = Sweep(self.chat.store, self.queue, metrics=self.metrics)
        self.swept: list[tuple[int, int]] = []

    async def grow(self, count: int, *, lost: int = 0) -> list[StoreConversation]:
        """Let turns of new contexts wait; the first `lost` messages are lost."""
        made = [of(self.chat, context_id=f"c-{number}") for number in range(count)]
        for number, chat in enumerate(made):
            await chat.waits(f"m-{number}")
            if number >= lost:
                await self.queue.enqueue(WakeUp(chat.context))
        return made

    async def sweeps(self, times: int) -> list[tuple[int, int]]:
        """Sweep each minute; return what each sweep has found and enqueued."""
        counts = []
        for _ in range(times):
            self.chat.clock.move(EVERY)
            swept = await self.sweep.once()
            counts.append((swept.found, swept.enqueued))
        return counts

    async def works(self, times: int, only: str | None = None) -> list[str]:
        """Begin and end the turns of so many messages; return their context ids, "" for a message without a turn.

        With `only`, skip the messages of other contexts.
        """
        begun = []
        for _ in range(times):
            wake_up = await self.receive()
            while only and wake_up is not None and wake_up.context.context_id != only:
                wake_up = await self.receive()
            assert wake_up is not None
            turn = await self.chat.store.begin(wake_up.context, holder="worker")
            begun.append(wake_up.context.context_id if isinstance(turn, TurnStarted) else "")
            if isinstance(turn, TurnStarted):
                await self.chat.ends(turn)
        return begun


def _in_files(queue: SQLiteQueue) -> Callable[[], Awaitable[WakeUp | None]]:
    async def receive() -> WakeUp | None:
        for message in await queue.receive(1):
            await queue.delete(message)
            return wake_up_of(message.body)
        return None

    return receive


@pytest.fixture(params=databases.LOCAL)
def local(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Backlog]:
    """Return a backlog in memory or SQLite. Its queue is in SQLite: the one in memory lets no message wait."""
    table, database = databases.local_table(request.param, clock, tmp_path), open_queues(tmp_path / "queues.db")
    queue = SQLiteQueue(database, "task", clock)
    chat = StoreConversation(store_of(table, None, clock), clock)
    yield Backlog(chat, SQLiteWorkQueue(queue, at_once=10), _in_files(queue), is_ordered=True)
    database.close()
    if request.param == "sqlite":
        table.close()  # type: ignore[attr-defined]


_queues = itertools.count()


@pytest.fixture
def on_sqs(stack: Stack, clock: ManualClock) -> Iterator[Backlog]:
    # A sweep counts the waiting contexts of the whole table, also those of earlier tests.
    databases.empty(stack)
    client = stack.client("sqs")
    url = client.create_queue(QueueName=f"backlog-{next(_queues)}")["QueueUrl"]

    async def receive() -> WakeUp | None:
        found: list[dict[str, Any]] = client.receive_message(QueueUrl=url).get("Messages", [])
        for message in found:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            return wake_up_of(message["Body"])
        return None

    with ThreadPoolExecutor(16) as executor:
        queue = SQSWorkQueue(AwsClient("sqs", executor, client=client), queue_url=url)
        chat = StoreConversation(store_of(table_of(stack, clock), stack, clock), clock)
        yield Backlog(chat, queue, receive, is_ordered=False)


async def _is_left_alone(backlog: Backlog, count: int) -> None:
    await backlog.grow(count)
    assert await backlog.sweeps(4) == [(0, 0)] * 4
    assert await backlog.queue.backlog() == count, "messages multiply"
    assert backlog.metrics.total(Metric.SWEEP_FOUND) == 0


async def _does_not_hide_dead_lease(backlog: Backlog, count: int) -> None:
    await of(backlog.chat, context_id="dead").starts("m-dead")
    at = backlog.chat.clock.now()
    assert await backlog.sweeps(1) == [(1, 1)], "the longest overdue waits come after it"
    assert (backlog.chat.clock.now() - at).total_seconds() < LEASE_SECONDS + EVERY
    assert await backlog.queue.backlog() == count + 1
    assert await backlog.works(1, only=None if backlog.is_ordered else "dead") == ["dead"]
    assert backlog.metrics.total(Metric.SWEEP_FOUND) == 1


async def test_sweep_leaves_backlog_alone(local: Backlog) -> None:
    await _is_left_alone(local, MANY)


async def test_dead_lease_overtakes_backlog(local: Backlog) -> None:
    await local.grow(MANY)
    await local.sweeps(1)
    await _does_not_hide_dead_lease(local, MANY)


@pytest.mark.deep
async def test_dead_lease_is_found_behind_sqs_backlog(on_sqs: Backlog) -> None:
    await _is_left_alone(on_sqs, MANY)
    await _does_not_hide_dead_lease(on_sqs, MANY)


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_backlog_of_ten_thousand_hides_no_dead_lease(local: Backlog) -> None:
    await _is_left_alone(local, 10_000)
    await _does_not_hide_dead_lease(local, 10_000)


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_sqs_backlog_of_six_hundred_hides_no_dead_lease(on_sqs: Backlog) -> None:
    await _is_left_alone(on_sqs, 600)
    await _does_not_hide_dead_lease(on_sqs, 600)


@pytest.mark.parametrize(("lost", "found"), [(31, [31, 0, 0]), (300, [200, 100, 0])])
async def test_sweep_replaces_only_lost_messages_of_backlog(local: Backlog, lost: int, found: list[int]) -> None:
    """One in ten or more is lost: the queue has too few messages, so the longest overdue contexts get theirs."""
    await local.grow(300, lost=lost)
    assert await local.sweeps(3) == [(count, count) for count in found]
    assert await local.queue.backlog() == 300
    assert set(await local.works(300)) == {f"c-{number}" for number in range(300)}


async def test_sweep_finds_few_lost_messages_once_backlog_is_worked_off(local: Backlog) -> None:
    """One of a hundred is lost: SQS's count is too inexact to show it at once."""
    made = await local.grow(100, lost=1)
    assert await local.sweeps(1) == [(0, 0)]
    assert len(set(await local.works(99))) == 99
    assert await local.sweeps(1) == [(1, 1)]
    assert await local.works(1) == [made[0].context.context_id]


async def test_sweep_repeats_few_messages_of_long_waits(local: Backlog) -> None:
    """Other messages may take the place of a lost one in the count, and a backlog may never end."""
    await local.grow(100, lost=1)
    local.chat.clock.move(QUEUED_SECONDS + LEASE_SECONDS)
    assert await local.sweeps(2) == [(0, QUEUED_AT_ONCE)] * 2
    assert local.metrics.total(Metric.SWEEP_FOUND) == 0, "it is not known to be lost"
    assert await local.queue.backlog() == 99 + 2 * QUEUED_AT_ONCE
    begun = [each for each in await local.works(99 + 2 * QUEUED_AT_ONCE) if each]
    assert sorted(begun) == sorted({f"c-{number}" for number in range(100)})


async def test_empty_queue_means_that_message_is_lost(local: Backlog) -> None:
    await local.grow(3, lost=3)
    assert await local.sweeps(1) == [(3, 3)]
