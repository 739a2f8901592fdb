"""Contract of `WorkQueue` on each adapter."""

import asyncio
import itertools
import sqlite3
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import botocore.session
import pytest
import pytest_asyncio
from botocore.config import Config
from msgspec.structs import replace

from aion_core.aws.client import AwsClient
from aion_core.aws.queues import SQSWorkQueue
from aion_core.engine.queues import WakeUp, WorkQueue, body_of, wake_up_of
from aion_core.errors import StoreError, StoreUnavailable, UnreadableWakeUp
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.local.sqlite.database import Database
from aion_core.local.sqlite.message_queue import SQLiteQueue, open_queues
from aion_core.local.sqlite.queues import SQLiteWorkQueue
from aion_core.table.keys import ContextKey
from tests.support.clock import ManualClock
from tests.support.databases import Stack

pytestmark = pytest.mark.each_database

PATIENCE = 60
WAKE_UP = WakeUp(ContextKey("owner", "echo", "c-1"), 1)


class QueueHarness(Protocol):
    """Queue under test, with a handler that records the received messages."""

    @property
    def work_queue(self) -> WorkQueue:
        """Return the queue under test."""
        ...

    async def received(self) -> list[WakeUp]:
        """Return the messages since the last call."""
        ...

    async def let_pass(self, seconds: float) -> None:
        """Let this number of seconds pass."""
        ...

    def now(self) -> float:
        """Return the time in seconds."""
        ...

    def cut_off(self) -> WorkQueue:
        """Return a work queue without a connection."""
        ...


class MemoryHarness:
    def __init__(self, clock: ManualClock) -> None:
        self.work_queue, self._clock = MemoryWorkQueue(clock), clock
        self._heard: list[WakeUp] = []
        self.work_queue.handled_by(self._hear)
        self.work_queue.open()

    async def received(self) -> list[WakeUp]:
        await asyncio.sleep(0.01)
        received, self._heard = self._heard, []
        return received

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(0.01)
        self._clock.move(seconds)

    def now(self) -> float:
        return self._clock.now().timestamp()

    def cut_off(self) -> WorkQueue:
        work_queue = MemoryWorkQueue(self._clock)
        work_queue.open()
        work_queue.close()
        return work_queue

    async def _hear(self, wake_up: WakeUp) -> None:
        self._heard.append(wake_up)


class SQLiteHarness:
    def __init__(self, clock: ManualClock, path: Path) -> None:
        self._path, self._clock = path, clock
        self._database = open_queues(path)
        self._queue = SQLiteQueue(self._database, "task", clock)
        self.work_queue = SQLiteWorkQueue(self._queue, at_once=16)

    async def received(self) -> list[WakeUp]:
        received = []
        for message in await self._queue.receive(10):
            await self._queue.delete(message)
            received.append(wake_up_of(message.body))
        return received

    async def let_pass(self, seconds: float) -> None:
        self._clock.move(seconds)

    def now(self) -> float:
        return self._clock.now().timestamp()

    def cut_off(self) -> WorkQueue:
        """Return a work queue whose file is locked by another connection's write."""
        impatient = Database(self._path, "", busy_seconds=0.05)
        self._writer = sqlite3.connect(self._path, isolation_level=None)
        self._writer.execute("BEGIN IMMEDIATE")
        return SQLiteWorkQueue(SQLiteQueue(impatient, "task", self._clock), at_once=16)

    def close(self) -> None:
        self._database.close()


_queues = itertools.count()


class SQSHarness:
    def __init__(self, stack: Stack, executor: ThreadPoolExecutor) -> None:
        self._client, self._executor = stack.client("sqs"), executor
        self.url = self._client.create_queue(QueueName=f"messages-{next(_queues)}")["QueueUrl"]
        self.work_queue = SQSWorkQueue(AwsClient("sqs", executor, client=self._client), queue_url=self.url)

    @property
    def events(self) -> Any:
        """Return the hooks of botocore's client."""
        return self._client.meta.events

    async def received(self) -> list[WakeUp]:
        received = []
        while messages := (await self._receive()).get("Messages"):
            for message in messages:
                self._client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
                received.append(wake_up_of(message["Body"]))
        return received

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def now(self) -> float:
        return time.monotonic()

    def cut_off(self) -> WorkQueue:
        nowhere = botocore.session.get_session().create_client(
            "sqs",
            region_name="us-east-1",
            endpoint_url="http://127.0.0.1:1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(connect_timeout=1, retries={"total_max_attempts": 1}),
        )
        return SQSWorkQueue(AwsClient("sqs", self._executor, client=nowhere), queue_url=self.url)

    async def _receive(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._client.receive_message, QueueUrl=self.url, MaxNumberOfMessages=10)


@pytest_asyncio.fixture
async def harness(
    adapter: Stack | None, clock: ManualClock, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[QueueHarness]:
    if request.node.callspec.params["adapter"] == "sqlite":
        in_a_file = SQLiteHarness(clock, tmp_path / "queues.db")
        yield in_a_file
        in_a_file.close()
    elif adapter is None:
        harness = MemoryHarness(clock)
        yield harness
        harness.work_queue.close()
    else:
        with ThreadPoolExecutor(4) as executor:
            yield SQSHarness(adapter, executor)


@pytest_asyncio.fixture
async def sqs(stack: Stack) -> AsyncIterator[SQSHarness]:
    with ThreadPoolExecutor(4) as executor:
        yield SQSHarness(stack, executor)


async def until_received(harness: QueueHarness, number: int = 1) -> list[WakeUp]:
    """Return this number of messages as soon as they arrive."""
    received: list[WakeUp] = []
    end = time.monotonic() + PATIENCE
    while len(received) < number:
        assert time.monotonic() < end, f"{len(received)} of {number} messages were received"
        received += await harness.received()
    return received


# --- Every adapter ---


async def test_worker_receives_wake_up_message_as_enqueued(harness: QueueHarness) -> None:
    await harness.work_queue.enqueue(WAKE_UP)
    assert await until_received(harness) == [WAKE_UP]


async def test_wake_up_message_may_omit_fencing_token(harness: QueueHarness) -> None:
    await harness.work_queue.enqueue(WakeUp(WAKE_UP.context))
    assert await until_received(harness) == [WakeUp(WAKE_UP.context)]


@pytest.mark.parametrize("from_thread", [False, True])
async def test_delayed_wake_up_message_arrives_after_its_delay(harness: QueueHarness, from_thread: bool) -> None:
    begun = harness.now()
    if from_thread:
        await asyncio.to_thread(harness.work_queue.enqueue_from_thread, WAKE_UP, delay=1.2)
    else:
        await harness.work_queue.enqueue(WAKE_UP, delay=1.2)
    while not (received := await harness.received()):
        assert harness.now() - begun < PATIENCE
        await harness.let_pass(0.3)
    assert received == [WAKE_UP]
    assert harness.now() - begun >= 1.2


async def test_thread_can_enqueue_message_while_event_loop_is_blocked(harness: QueueHarness) -> None:
    """The heartbeat's thread must be able to enqueue a message while an agent blocks the event loop."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(harness.work_queue.enqueue_from_thread, WAKE_UP).result(PATIENCE)
    assert await until_received(harness) == [WAKE_UP]


@pytest.mark.parametrize(
    "odd",
    [
        "a#b",
        "日本 \U0001f642",
        'say "hi"',
        "two\nlines\r\n",
        "{}",
        "\x00\x1f\x7f",
        "\ufffe\uffff",
        "\\u0000",
        "é" * 300,
        " ",
    ],
    ids=ascii,
)
async def test_ids_in_wake_up_message_may_have_any_character(harness: QueueHarness, odd: str) -> None:
    wake_up = WakeUp(ContextKey(odd, f"{odd}-agent", f"{odd}-context"), 7)
    await harness.work_queue.enqueue(wake_up)
    assert await until_received(harness) == [wake_up]


async def test_concurrent_wake_up_messages_all_arrive(harness: QueueHarness) -> None:
    three = [WakeUp(WAKE_UP.context, n) for n in range(3)]
    await asyncio.gather(*(harness.work_queue.enqueue(wake_up) for wake_up in three))
    received = await until_received(harness, 3)
    assert sorted(wake_up.fence for wake_up in received) == [0, 1, 2]


async def test_wake_up_message_enqueued_twice_arrives_twice(harness: QueueHarness) -> None:
    """The queue must not remove duplicates: work may have been added between the two messages."""
    await harness.work_queue.enqueue(WAKE_UP)
    await harness.work_queue.enqueue(WAKE_UP)
    assert await until_received(harness, 2) == [WAKE_UP, WAKE_UP]


async def test_unreachable_queue_raises_store_unavailable(harness: QueueHarness) -> None:
    work_queue = harness.cut_off()
    with pytest.raises(StoreUnavailable):
        await work_queue.enqueue(WAKE_UP)
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(work_queue.enqueue_from_thread, WAKE_UP)


# --- On SQS ---


@pytest.mark.parametrize(
    ("delay", "seconds"), [(0, 0), (-1, 0), (0.1, 1), (30, 30), (29.2, 30), (899.5, 900), (900, 900), (1e9, 900)]
)
async def test_sqs_delay_is_rounded_and_limited(sqs: SQSHarness, delay: float, seconds: int) -> None:
    sent: list[int] = []
    sqs.events.register(
        "provide-client-params.sqs.SendMessage", lambda params, **_: sent.append(params["DelaySeconds"])
    )
    await sqs.work_queue.enqueue(WAKE_UP, delay=delay)
    assert sent == [seconds]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("RequestThrottled", StoreUnavailable),
        ("ThrottlingException", StoreUnavailable),
        ("KmsThrottled", StoreUnavailable),
        ("KMS.ThrottlingException", StoreUnavailable),
        ("InternalFailure", StoreUnavailable),
        ("ServiceUnavailable", StoreUnavailable),
        ("AccessDenied", StoreError),
        ("InvalidMessageContents", StoreError),
    ],
)
async def test_sqs_error_code_decides_raised_store_error(sqs: SQSHarness, code: str, error: type[StoreError]) -> None:
    class FakeAnswer:
        status_code = 400

    sqs.events.register(
        "before-call.sqs.SendMessage", lambda **_: (FakeAnswer(), {"Error": {"Code": code}, "ResponseMetadata": {}})
    )
    with pytest.raises(StoreError) as raised:
        await sqs.work_queue.enqueue(WAKE_UP)
    assert type(raised.value) is error


async def test_missing_queue_raises_permanent_error(stack: Stack) -> None:
    with ThreadPoolExecutor(1) as executor:
        calls = AwsClient("sqs", executor, client=stack.client("sqs"))
        queue = stack.environment("ApiFunction")["AION_TASK_QUEUE_URL"]
        work_queue = SQSWorkQueue(calls, queue_url=f"{queue}-nowhere")
        with pytest.raises(StoreError) as raised:
            await work_queue.enqueue(WAKE_UP)
    assert type(raised.value) is StoreError


def test_wake_up_message_has_only_ids_and_version() -> None:
    assert body_of(WAKE_UP) == '{"v":1,"owner":"owner","agent":"echo","context_id":"c-1","fence":1}'


def test_wake_up_message_names_time_of_look() -> None:
    look = replace(WAKE_UP, look=1_767_323_045_678)
    assert wake_up_of(body_of(look)) == look
    since = replace(look, since=1_767_323_045_000)
    assert wake_up_of(body_of(since)) == since
    assert wake_up_of(body_of(look).replace("1767323045678", '"soon"')) == WAKE_UP


def test_unknown_wake_up_message_fields_are_ignored() -> None:
    assert wake_up_of(body_of(WAKE_UP).replace("{", '{"new":[1],')) == WAKE_UP


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("", "is not JSON"),
        ("hello", "is not JSON"),
        ("[]", "has no version"),
        ("3", "has no version"),
        ('{"task_id":"t-1"}', "has no version"),
        (body_of(WAKE_UP).replace('"v":1', '"v":2'), "version 2, and this function reads 1"),
        ('{"v":1}', "must have the texts"),
        (body_of(WAKE_UP).replace('"owner":"owner"', '"owner":""'), "must have the texts"),
        (body_of(WAKE_UP).replace('"c-1"', "7"), "must have the texts"),
        (body_of(WAKE_UP).replace('"fence":1', '"fence":null'), "must have the texts"),
    ],
)
def test_invalid_wake_up_message_is_refused_with_reason(body: str, told: str) -> None:
    with pytest.raises(UnreadableWakeUp, match=told):
        wake_up_of(body)
