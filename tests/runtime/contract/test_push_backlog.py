"""Sweep with many waiting notifications, on each table and queue: it finds lost messages and dead claims, and nothing else."""

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.aws.client import AwsClient
from aion_core.aws.queues import SQSPushQueue
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.delivery.readiness import CLAIM_SECONDS, WAKE_UP_SECONDS
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.queues import PushQueue, PushWakeUp, push_wake_up_of
from aion_core.engine.sweep import QUEUED_AT_ONCE, QUEUED_SECONDS, Sweep
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.local.sqlite.message_queue import SQLiteQueue, open_queues
from aion_core.local.sqlite.queues import SQLitePushQueue
from aion_core.push.client import Delivered, PostOutcome
from aion_core.push.delivery import PushDelivery
from aion_core.push.request import render
from aion_core.table.port import Table
from aion_core.telemetry import Metric
from tests.support import databases
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation, of
from tests.support.databases import Stack
from tests.support.metrics import MemoryMetrics
from tests.support.pushes import Pushes, a_config
from tests.support.stores import CIPHER, LEASE_SECONDS, store_of, table_of

EVERY = 60.0
"""Seconds between two sweeps."""

MANY = 100
"""Tasks whose notifications wait."""


class Receiver:
    """Webhook that accepts each post."""

    def __init__(self) -> None:
        self.posts = 0

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """See `WebhookClient.post`."""
        self.posts += 1
        return Delivered()


@dataclass
class PushBacklog:
    """Tasks whose notifications wait, each with its message in the queue, and no process that delivers."""

    push: Pushes
    queue: PushQueue
    receive: Callable[[], Awaitable[PushWakeUp | None]]
    """Receive and delete the next message, None if none is visible."""

    def __post_init__(self) -> None:
        clock, chat = self.push.clock, self.push.chat
        self.metrics, self.receiver = MemoryMetrics(), Receiver()
        self.sweep = Sweep(chat.store, MemoryWorkQueue(clock), self.push.configs, self.queue, metrics=self.metrics)
        self.delivery = PushDelivery(chat.store, self.push.configs, self.queue, self.receiver, render, clock)

    async def grow(self, count: int, *, lost: int = 0, first: int = 0) -> None:
        """Let a new webhook (even numbers) or an event (odd numbers) of new tasks wait; the first `lost` messages are lost."""
        for number in range(first, first + count):
            chat = of(self.push.chat, context_id=f"c-{number}")
            new, is_event = chat.message(f"m-{number}"), number % 2
            begun = await chat.store.create(replace(new, push=a_config()) if is_event else new, holder="holder")
            assert isinstance(begun, TurnStarted)
            await chat.ends(begun)
            if is_event:
                await self.push.configs.clear(new.key, 2)
            else:
                await self.push.configs.put(new.key, a_config())
            if number - first >= lost:
                await self.queue.enqueue(PushWakeUp(new.key))

    async def fails(self, number: int, *, retry_in: float) -> None:
        """Let a post to the webhook fail, as `EventPoster` does: only a retry within 15 minutes has a message."""
        claim = await self.push.claimed(task_id=f"t-m-{number}")
        next_at = self.push.clock.now() + timedelta(seconds=retry_in)
        has_message = retry_in <= 900
        due_at = next_at + timedelta(seconds=WAKE_UP_SECONDS * has_message)
        await self.push.configs.fail(claim, failure="HTTP 500", next_at=next_at, due_at=due_at)
        if has_message:
            await self.queue.enqueue(PushWakeUp(claim.delivery.task), delay=retry_in)

    async def sweeps(self, times: int) -> list[tuple[int, int]]:
        """Sweep each minute; return what each sweep has found and enqueued."""
        counts = []
        for _ in range(times):
            self.push.clock.move(EVERY)
            before = self.metrics.total(Metric.SWEEP_FOUND)
            swept = await self.sweep.once()
            assert self.metrics.total(Metric.SWEEP_FOUND) - before == swept.found
            counts.append((swept.found, swept.enqueued))
        return counts

    async def delivers(self, messages: int) -> int:
        """Handle so many messages; return the number of posts."""
        before = self.receiver.posts
        for _ in range(messages):
            wake_up = await self.receive()
            assert wake_up is not None
            await self.delivery.deliver(wake_up)
        return self.receiver.posts - before


def _on(table: Table, stack: Stack | None, clock: ManualClock) -> Pushes:
    chat = StoreConversation(store_of(table, stack, clock), clock)
    return Pushes(chat, PushConfigs(table, CIPHER, clock, lease_seconds=LEASE_SECONDS), clock, table)


@pytest.fixture(params=databases.LOCAL)
def local(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[PushBacklog]:
    """Return a backlog in memory or SQLite. Its queue is in SQLite: the one in memory lets no message wait."""
    table, database = databases.local_table(request.param, clock, tmp_path), open_queues(tmp_path / "queues.db")
    queue = SQLiteQueue(database, "push", clock)

    async def receive() -> PushWakeUp | None:
        for message in await queue.receive(1):
            await queue.delete(message)
            return push_wake_up_of(message.body)
        return None

    yield PushBacklog(_on(table, None, clock), SQLitePushQueue(queue), receive)
    database.close()
    if request.param == "sqlite":
        table.close()  # type: ignore[attr-defined]


_queues = itertools.count()


@pytest.fixture
def on_sqs(stack: Stack, clock: ManualClock) -> Iterator[PushBacklog]:
    # A sweep counts the waiting notifications of the whole table, also those of earlier tests.
    databases.empty(stack)
    client = stack.client("sqs")
    url = client.create_queue(QueueName=f"push-backlog-{next(_queues)}")["QueueUrl"]

    async def receive() -> PushWakeUp | None:
        found: list[dict[str, Any]] = client.receive_message(QueueUrl=url).get("Messages", [])
        for message in found:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            return push_wake_up_of(message["Body"])
        return None

    with ThreadPoolExecutor(16) as executor:
        queue = SQSPushQueue(AwsClient("sqs", executor, client=client), queue_url=url)
        yield PushBacklog(_on(table_of(stack, clock), stack, clock), queue, receive)


async def _is_left_alone(backlog: PushBacklog, count: int) -> None:
    await backlog.grow(count)
    assert await backlog.sweeps(4) == [(0, 0)] * 4
    assert await backlog.queue.backlog() == count, "messages multiply"


async def test_sweep_leaves_backlog_of_notifications_alone(local: PushBacklog) -> None:
    await _is_left_alone(local, MANY)
    assert await local.delivers(MANY) > 0
    assert await local.sweeps(4) == [(0, 0)] * 4


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_sweep_leaves_sqs_backlog_of_notifications_alone(on_sqs: PushBacklog) -> None:
    await _is_left_alone(on_sqs, 300)


async def test_sweep_replaces_lost_messages_in_sqs(on_sqs: PushBacklog) -> None:
    await on_sqs.grow(12, lost=3)
    assert await on_sqs.sweeps(3) == [(3, 3), (0, 0), (0, 0)]
    assert await on_sqs.queue.backlog() == 12
    assert await on_sqs.delivers(12) == 12


@pytest.mark.parametrize("lost", [11, MANY])
async def test_sweep_replaces_only_lost_messages_of_notifications(local: PushBacklog, lost: int) -> None:
    """More than one in ten is lost: the queue has too few messages, so the longest overdue tasks get theirs."""
    await local.grow(MANY, lost=lost)
    assert await local.sweeps(3) == [(lost, lost), (0, 0), (0, 0)]
    assert await local.queue.backlog() == MANY


async def test_sweep_finds_lost_notification_once_backlog_is_worked_off(local: PushBacklog) -> None:
    """One of a hundred is lost: SQS's count is too inexact to show it at once."""
    await local.grow(MANY, lost=1)
    assert await local.sweeps(1) == [(0, 0)]
    await local.delivers(MANY - 1)
    assert await local.sweeps(2) == [(1, 1), (0, 0)]


async def test_sweep_repeats_few_messages_of_notifications_that_wait_long(local: PushBacklog) -> None:
    """Other messages may take the place of a lost one in the count, and a backlog may never end."""
    await local.grow(MANY, lost=1)
    local.push.clock.move(QUEUED_SECONDS + LEASE_SECONDS)
    assert await local.sweeps(2) == [(0, QUEUED_AT_ONCE)] * 2


async def test_fresh_messages_do_not_hide_lost_ones(local: PushBacklog) -> None:
    """In a busy queue, there are always messages of events that are not overdue yet."""
    await local.grow(10, lost=10)
    local.push.clock.move(LEASE_SECONDS + 1)
    await local.grow(20, first=10)
    swept = await local.sweep.once()
    assert (swept.found, swept.enqueued) == (10, 10)


@pytest.mark.parametrize("behind", [0, MANY])
async def test_slow_delivery_is_not_taken_for_lost(local: PushBacklog, behind: int) -> None:
    """Its message is received, so it is not in the queue; events that follow wait for the same process."""
    await local.grow(40)
    for number in range(40):
        await local.receive()
        await local.push.claimed(task_id=f"t-m-{number}", seconds=LEASE_SECONDS + EVERY)
    await local.grow(behind, first=40)
    assert await local.sweeps(1) == [(0, 0)]


async def test_dead_delivery_is_found_behind_backlog(local: PushBacklog) -> None:
    await local.grow(1)
    await local.receive()
    await local.push.claimed(task_id="t-m-0", seconds=CLAIM_SECONDS)
    await local.grow(MANY, first=1)
    assert await local.sweeps(3) == [(1, 1), (0, 0), (0, 0)]


async def test_planned_retries_are_begun_once_and_not_counted(local: PushBacklog) -> None:
    await local.grow(20)
    for number in range(20):
        await local.receive()
        await local.fails(number, retry_in=3600)
        await local.push.configs.clear(local.push.key(f"t-m-{number}"), 3)
    assert await local.sweeps(59) == [(0, 0)] * 59
    assert await local.sweeps(4) == [(0, 20), *[(0, 0)] * 3], "their messages wait in a backlog"


async def test_delayed_messages_of_retries_are_not_taken_for_lost(local: PushBacklog) -> None:
    """The queue counts only visible messages: those of retries are delayed, and then visible before their timers expire."""
    await local.grow(2 * MANY)
    for number in range(MANY):
        await local.receive()
        await local.fails(number, retry_in=270)
        await local.push.configs.clear(local.push.key(f"t-m-{number}"), 3)
    assert await local.sweeps(6) == [(0, 0)] * 6
    assert await local.queue.backlog() == 2 * MANY


async def test_empty_queue_means_that_message_of_notification_is_lost(local: PushBacklog) -> None:
    await local.grow(3, lost=3)
    assert await local.sweeps(1) == [(3, 3)]
