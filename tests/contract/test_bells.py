"""What `ports.Bells` promises, over each adapter."""

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

from aion_core.aws.client import Calls
from aion_core.aws.queues import SQSBells
from aion_core.errors import StoreError, StoreUnavailable, UnreadableBell
from aion_core.memory.queues import MemoryBells
from aion_core.ports import Bell, Bells, ContextKey
from aion_core.ports.bells import bell_of, body_of
from aion_core.sqlite.database import Database
from aion_core.sqlite.queues import VERSION, SQLiteBells, SQLiteQueue, open_queues
from tests.support.clock import ManualClock
from tests.support.engines import Stack

pytestmark = pytest.mark.each_engine

PATIENCE = 20
BELL = Bell(ContextKey("owner", "echo", "c-1"), 1)


class Belfry(Protocol):
    """Bells, and somebody who listens."""

    bells: Bells

    async def heard(self) -> list[Bell]:
        """Return the bells that are heard by now and were not before."""
        ...

    async def let_pass(self, seconds: float) -> None:
        """Return when it is so many seconds later."""
        ...

    def cut_off(self) -> Bells:
        """Return such bells whose queue cannot be reached."""
        ...


class MemoryBelfry:
    def __init__(self, clock: ManualClock) -> None:
        self.bells, self._clock = MemoryBells(clock), clock
        self._heard: list[Bell] = []
        self.bells.answered_by(self._hear)
        self.bells.open()

    async def heard(self) -> list[Bell]:
        await asyncio.sleep(0.01)
        heard, self._heard = self._heard, []
        return heard

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(0.01)
        self._clock.move(seconds)

    def cut_off(self) -> Bells:
        bells = MemoryBells(self._clock)
        bells.open()
        bells.close()
        return bells

    async def _hear(self, bell: Bell) -> None:
        self._heard.append(bell)


class SQLiteBelfry:
    def __init__(self, clock: ManualClock, path: Path) -> None:
        self._path, self._clock = path, clock
        self._database = open_queues(path)
        self._queue = SQLiteQueue(self._database, "task", clock)
        self.bells = SQLiteBells(self._queue, at_once=16)

    async def heard(self) -> list[Bell]:
        heard = []
        for message in await self._queue.receive(10):
            await self._queue.delete(message)
            heard.append(bell_of(message.body))
        return heard

    async def let_pass(self, seconds: float) -> None:
        self._clock.move(seconds)

    def cut_off(self) -> Bells:
        """Another process writes, and does not end."""
        impatient = Database(self._path, "", version=VERSION, busy_seconds=0.05)
        self._writer = sqlite3.connect(self._path, isolation_level=None)
        self._writer.execute("BEGIN IMMEDIATE")
        return SQLiteBells(SQLiteQueue(impatient, "task", self._clock), at_once=16)

    def close(self) -> None:
        self._database.close()


_queues = itertools.count()


class SQSBelfry:
    def __init__(self, stack: Stack, executor: ThreadPoolExecutor) -> None:
        self._client, self._executor = stack.client("sqs"), executor
        self.url = self._client.create_queue(QueueName=f"bells-{next(_queues)}")["QueueUrl"]
        self.bells = SQSBells(Calls("sqs", executor, client=self._client), queue_url=self.url)

    @property
    def events(self) -> Any:
        """The hooks of botocore's client."""
        return self._client.meta.events

    async def heard(self) -> list[Bell]:
        heard = []
        while messages := (await self._receive()).get("Messages"):
            for message in messages:
                self._client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
                heard.append(bell_of(message["Body"]))
        return heard

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def cut_off(self) -> Bells:
        nowhere = botocore.session.get_session().create_client(
            "sqs",
            region_name="us-east-1",
            endpoint_url="http://127.0.0.1:1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(connect_timeout=1, retries={"total_max_attempts": 1}),
        )
        return SQSBells(Calls("sqs", self._executor, client=nowhere), queue_url=self.url)

    async def _receive(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._client.receive_message, QueueUrl=self.url, MaxNumberOfMessages=10)


@pytest_asyncio.fixture
async def belfry(
    adapter: Stack | None, clock: ManualClock, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Belfry]:
    if request.node.callspec.params["adapter"] == "sqlite":
        in_a_file = SQLiteBelfry(clock, tmp_path / "queues.db")
        yield in_a_file
        in_a_file.close()
    elif adapter is None:
        belfry = MemoryBelfry(clock)
        yield belfry
        belfry.bells.close()
    else:
        with ThreadPoolExecutor(4) as executor:
            yield SQSBelfry(adapter, executor)


@pytest_asyncio.fixture
async def sqs(stack: Stack) -> AsyncIterator[SQSBelfry]:
    with ThreadPoolExecutor(4) as executor:
        yield SQSBelfry(stack, executor)


async def until_heard(belfry: Belfry, number: int = 1) -> list[Bell]:
    """Return so many bells, as soon as they are heard."""
    heard: list[Bell] = []
    end = time.monotonic() + PATIENCE
    while len(heard) < number:
        assert time.monotonic() < end, f"{len(heard)} of {number} bells were heard"
        heard += await belfry.heard()
    return heard


# --- Both ---


async def test_a_bell_is_heard_and_says_where_it_rings(belfry: Belfry) -> None:
    await belfry.bells.ring(BELL)
    assert await until_heard(belfry) == [BELL]


async def test_a_bell_for_any_turn_names_none(belfry: Belfry) -> None:
    await belfry.bells.ring(Bell(BELL.context))
    assert await until_heard(belfry) == [Bell(BELL.context)]


@pytest.mark.parametrize("from_thread", [False, True])
async def test_a_bell_is_not_heard_before_its_delay_is_over(belfry: Belfry, from_thread: bool) -> None:
    if from_thread:
        await asyncio.to_thread(belfry.bells.ring_from_thread, BELL, delay=1.2)
    else:
        await belfry.bells.ring(BELL, delay=1.2)
    await belfry.let_pass(1.1)
    assert await belfry.heard() == []
    # SQS counts in whole seconds.
    await belfry.let_pass(0.9)
    assert await until_heard(belfry) == [BELL]


async def test_a_thread_rings_while_the_event_loop_is_blocked(belfry: Belfry) -> None:
    """The lease's own thread rings, and an agent may block the loop."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(belfry.bells.ring_from_thread, BELL).result(PATIENCE)
    assert await until_heard(belfry) == [BELL]


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
async def test_ids_may_hold_any_character(belfry: Belfry, odd: str) -> None:
    bell = Bell(ContextKey(odd, f"{odd}-agent", f"{odd}-context"), 7)
    await belfry.bells.ring(bell)
    assert await until_heard(belfry) == [bell]


async def test_of_three_bells_at_once_each_is_heard(belfry: Belfry) -> None:
    three = [Bell(BELL.context, n) for n in range(3)]
    await asyncio.gather(*(belfry.bells.ring(bell) for bell in three))
    heard = await until_heard(belfry, 3)
    assert sorted(bell.fence for bell in heard) == [0, 1, 2]


async def test_the_same_bell_rung_twice_is_heard_twice(belfry: Belfry) -> None:
    """What was swallowed as a repeat might have been the one that mattered."""
    await belfry.bells.ring(BELL)
    await belfry.bells.ring(BELL)
    assert await until_heard(belfry, 2) == [BELL, BELL]


async def test_a_queue_that_cannot_be_reached_is_told(belfry: Belfry) -> None:
    bells = belfry.cut_off()
    with pytest.raises(StoreUnavailable):
        await bells.ring(BELL)
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(bells.ring_from_thread, BELL)


# --- On SQS ---


@pytest.mark.parametrize(
    ("delay", "seconds"), [(0, 0), (-1, 0), (0.1, 1), (30, 30), (29.2, 30), (899.5, 900), (900, 900), (1e9, 900)]
)
async def test_a_delay_is_whole_seconds_and_15_minutes_at_most(sqs: SQSBelfry, delay: float, seconds: int) -> None:
    sent: list[int] = []
    sqs.events.register(
        "provide-client-params.sqs.SendMessage", lambda params, **_: sent.append(params["DelaySeconds"])
    )
    await sqs.bells.ring(BELL, delay=delay)
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
async def test_what_sqs_refuses_has_one_of_our_names(sqs: SQSBelfry, code: str, error: type[StoreError]) -> None:
    class Answer:
        status_code = 400

    sqs.events.register(
        "before-call.sqs.SendMessage", lambda **_: (Answer(), {"Error": {"Code": code}, "ResponseMetadata": {}})
    )
    with pytest.raises(StoreError) as raised:
        await sqs.bells.ring(BELL)
    assert type(raised.value) is error


async def test_a_queue_that_is_not_there_is_an_error_that_does_not_pass(stack: Stack) -> None:
    with ThreadPoolExecutor(1) as executor:
        calls = Calls("sqs", executor, client=stack.client("sqs"))
        queue = stack.environment("ApiFunction")["AION_TASK_QUEUE_URL"]
        bells = SQSBells(calls, queue_url=f"{queue}-nowhere")
        with pytest.raises(StoreError) as raised:
            await bells.ring(BELL)
    assert type(raised.value) is StoreError


def test_a_message_holds_ids_and_the_version_only() -> None:
    assert body_of(BELL) == '{"v":1,"owner":"owner","agent":"echo","context_id":"c-1","fence":1}'


def test_what_a_later_version_adds_is_no_matter() -> None:
    assert bell_of(body_of(BELL).replace("{", '{"new":[1],')) == BELL


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("", "is not JSON"),
        ("hello", "is not JSON"),
        ("[]", "has no version"),
        ("3", "has no version"),
        ('{"task_id":"t-1"}', "has no version"),
        (body_of(BELL).replace('"v":1', '"v":2'), "version 2, and this function reads 1"),
        ('{"v":1}', "does not say"),
        (body_of(BELL).replace('"owner":"owner"', '"owner":""'), "does not say"),
        (body_of(BELL).replace('"c-1"', "7"), "does not say"),
        (body_of(BELL).replace('"fence":1', '"fence":null'), "does not say"),
    ],
)
def test_a_message_that_is_no_bell_is_refused_with_the_reason(body: str, told: str) -> None:
    with pytest.raises(UnreadableBell, match=told):
        bell_of(body)
