"""Subscriptions: several readers of a log share its reads, and streams are resumed."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aion_core.engine.admission.repeats import repeated_at
from aion_core.engine.call import CallContext
from aion_core.engine.records import Cursor, Delta, DeltaBatch, Head, Log, Numbered
from aion_core.engine.stream.broadcast import StreamItem
from aion_core.engine.stream.subscription import IDLE_SECONDS, beginning, merge
from aion_core.engine.task.states import TERMINAL_OR_INTERRUPTED, state_name
from aion_core.protocol.types import Message, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table.keys import ContextKey, TaskKey
from tests.support.agents.obedient import Obedient
from tests.support.agents.scripted import GatedAgent, Stepping
from tests.support.clock import ManualClock
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import http, parts, send, send_task
from tests.support.stores import MemoryTaskStore

# ── Readers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def event(generation: int) -> Numbered:
    return Numbered(generation, Message(message_id=str(generation)))


def batch(generation: int, fence: int, first: int, *texts: str) -> DeltaBatch:
    chunks = tuple(Delta(text, append=first + n > 0) for n, text in enumerate(texts))
    return DeltaBatch(generation, fence, first, chunks)


def ids(items: list[StreamItem]) -> list[str]:
    return [item.id for item in items]


def test_subscriber_receives_chunks_after_their_event() -> None:
    items, after, _ = merge(
        [event(1), event(2), event(3)], [batch(2, 1, 0, "a", "b"), batch(3, 1, 0, "c")], Cursor(), Cursor()
    )
    assert ids(items) == ["1", "2", "2.1.0", "2.1.1", "3", "3.1.0"]
    assert after == Cursor(3, 1, 1)


def test_chunks_are_streamed_only_after_their_event() -> None:
    items, after, shown = merge([event(1)], [batch(1, 1, 0, "a"), batch(2, 1, 0, "b")], Cursor(), Cursor())
    assert ids(items) == ["1", "1.1.0"]
    items, after, _ = merge([event(2)], [batch(2, 1, 0, "b")], after, shown)
    assert ids(items) == ["2", "2.1.0"]


def test_reader_receives_rest_of_partly_read_batch_of_chunks() -> None:
    items, after, _ = merge([], [batch(2, 1, 0, "a", "b", "c")], Cursor(2, 1, 2), Cursor(2, 1, 2))
    assert [item.payload for item in items] == [Delta("c", append=True)]
    assert after == Cursor(2, 1, 3)


def test_chunks_of_next_lease_holder_replace_older_chunks() -> None:
    batches = [batch(2, 1, 0, "old"), batch(2, 1, 1, "older still"), batch(2, 2, 0, "new"), batch(2, 2, 1, "er")]
    items, after, shown = merge([], batches, Cursor(2, 1, 1), Cursor(2, 1, 1))
    assert ids(items) == ["2.2.0", "2.2.1"]
    assert isinstance(items[0].payload, Delta)
    assert not items[0].payload.append
    items, after, _ = merge([], [batch(2, 1, 2, "too late")], after, shown)
    assert items == []
    assert after == Cursor(2, 2, 2)


@pytest.mark.parametrize(
    ("repeated", "first", "history"), [("m", 3, ["m"]), ("4", 4, ["m", "4"]), ("6", 5, ["m", "4", "5"])]
)
def test_repeated_message_is_found_in_log_with_snapshot(repeated: str, first: int, history: list[str]) -> None:
    """Begin the stream at the snapshot of event 3, at a recorded message, or at the end if the message still waits."""
    head = Head(TaskKey("o", "t"), ContextKey("o", "a", "c"), TaskState.TASK_STATE_WORKING, ManualClock().now(), 5, 1)
    recorded = [Numbered(each, TaskStatusUpdateEvent(), message=Message(message_id=str(each))) for each in (4, 5)]
    log = Log(head, (Numbered(3, Task(history=[Message(message_id="m")])), *recorded))
    after, items = beginning(log, "", repeated_at(Message(message_id=repeated, task_id="t"), log))
    assert after == Cursor(first)
    assert [each.message_id for each in getattr(items[0].payload, "history", [])] == history


LOG = st.lists(st.lists(st.text(max_size=3), max_size=6), min_size=1, max_size=5)


@given(log=LOG, cuts=st.lists(st.integers(0, 30), max_size=8), data=st.data())
def test_reader_receives_each_item_once_in_order(log: list[list[str]], cuts: list[int], data: Any) -> None:
    """Read a growing log at any times, with its batches split at any place."""
    whole: list[tuple[Numbered | None, DeltaBatch | None]] = []
    expected: list[str] = []
    for generation, texts in enumerate(log, start=1):
        whole.append((event(generation), None))
        expected.append(str(generation))
        n = 0
        while n < len(texts):
            size = data.draw(st.integers(1, len(texts) - n))
            whole.append((None, batch(generation, 1, n, *texts[n : n + size])))
            expected.extend(f"{generation}.1.{k}" for k in range(n, n + size))
            n += size

    items: list[str] = []
    after = shown = Cursor()
    for upto in [*sorted(min(cut, len(whole)) for cut in cuts), len(whole)]:
        written = whole[:upto]
        events = [entry for entry, _ in written if entry and entry.generation > after.generation]
        batches = [found for _, found in written if found]
        item, after, shown = merge(events, batches, after, shown)
        items.extend(ids(item))
    assert items == expected


@pytest.mark.parametrize("cursor", [Cursor(9), Cursor(9, 9, 9)])
def test_subscription_cursor_beyond_log_returns_no_items(cursor: Cursor) -> None:
    assert merge([], [batch(2, 1, 0, "a")], cursor, cursor) == ([], cursor, cursor)


# ── Shared reads ──────────────────────────────────────────────────────────────────────────────────────────────────────


class ReadCountingStore(MemoryTaskStore):
    """A store that counts its reads."""

    reads = 0

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        self.reads += 1
        return await super().log(key, after=after)

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        self.reads += 1
        return await super().deltas(key, since=since)


async def reads_of(readers: int, steps: int = 20) -> int:
    """Return the number of store reads for this many readers of a task with this many steps."""
    clock = ManualClock()
    store = ReadCountingStore(clock)
    made = parts(Stepping(steps, 1.0, clock), store, clock, lease_seconds=10_000)
    task = await send_task(made.service, CallContext("owner", "test"), request(return_immediately=True))
    items: list[list[str]] = [[] for _ in range(readers)]

    async def follow(ids: list[str]) -> None:
        async for batch in made.service.subscribe(CallContext("owner", "test"), task.id):
            ids.extend(item.id for item in batch)

    following = [asyncio.create_task(follow(ids)) for ids in items]
    await asyncio.sleep(0)
    store.reads = 0
    for _ in range(3000):
        clock.move(0.05)
        for _ in range(6):
            await asyncio.sleep(0)
        if all(task.done() for task in following):
            break
    await asyncio.gather(*following)
    for ids in items:
        assert ids == [str(n) for n in range(int(ids[0]), steps + 4)], "each reader has every event once"
    await made.work_queue.quiet()
    return store.reads


async def test_hundred_readers_need_at_most_twice_one_readers_requests() -> None:
    one, hundred = await reads_of(1), await reads_of(100)
    assert hundred <= 2 * one, f"{hundred} reads for a hundred, {one} for one"


async def test_one_process_serves_thousand_readers() -> None:
    """Subscribe a thousand readers to one task: each receives all its events."""
    one, thousand = await reads_of(1, steps=3), await reads_of(1000, steps=3)
    assert thousand <= 2 * one, f"{thousand} reads for a thousand, {one} for one"


async def test_leaving_reader_does_not_cancel_read_shared_with_others() -> None:
    clock = ManualClock()
    gate = asyncio.Event()

    class SlowDeltasStore(MemoryTaskStore):
        async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
            await gate.wait()
            return await super().deltas(key, since=since)

    made = parts(Stepping(0, 0.0, clock), SlowDeltasStore(clock), clock)
    task = await send_task(made.service, CallContext("owner", "test"), request())
    reads = made.service._reads
    two = [asyncio.create_task(reads.after(TaskKey("owner", task.id), 0, Cursor())) for _ in range(2)]
    await asyncio.sleep(0)
    two[0].cancel()
    gate.set()
    read = await two[1]
    assert read.log is not None
    assert len(read.log.events) == 3


# ── Interrupted tasks ─────────────────────────────────────────────────────────────────────────────────────────────────


class Subscriber:
    """Subscriber to a task, with the task states that it has received."""

    def __init__(self, made: Any, task_id: str, **options: Any) -> None:
        self.states: list[str] = []
        self._following = asyncio.create_task(self._follow(made, task_id, options))

    async def _follow(self, made: Any, task_id: str, options: dict[str, Any]) -> None:
        async for batch in made.service.subscribe(CallContext("owner", "test"), task_id, **options):
            self.states += [state_name(item.payload.status.state) for item in batch if hasattr(item.payload, "status")]

    @property
    def has_ended(self) -> bool:
        return self._following.done()

    async def end(self) -> list[str]:
        await self._following
        return self.states


async def test_subscription_continues_after_interrupt_until_terminal_state() -> None:
    """Interrupt the task and answer: the stream ends only in a terminal state (A2A 3.1.6)."""
    clock = ManualClock()
    made = parts(Obedient(), clock=clock)
    task = await send_task(made.service, CallContext("owner", "test"), request("ask"))
    reader = Subscriber(made, task.id)
    await clock.passes(30)
    assert (reader.states, reader.has_ended) == (["input-required"], False)
    answer = request("yes", message_id="m-2", task_id=task.id)
    await send_task(made.service, CallContext("owner", "test"), answer)
    await clock.passes(3)
    assert await reader.end() == ["input-required", "working", "completed"]


async def test_subscription_to_unanswered_interrupt_ends_after_idle_time() -> None:
    clock = ManualClock()
    made = parts(Obedient(), clock=clock)
    task = await send_task(made.service, CallContext("owner", "test"), request("ask"))
    reader = Subscriber(made, task.id)
    await clock.passes(IDLE_SECONDS - 5)
    assert not reader.has_ended
    await clock.passes(10)
    assert await reader.end() == ["input-required"]


async def test_v03_subscription_ends_at_interrupt() -> None:
    """Interrupt the task: in v0.3 this event is the last one of the stream."""
    clock = ManualClock()
    made = parts(Obedient(), clock=clock)
    task = await send_task(made.service, CallContext("owner", "test"), request("ask"))
    reader = Subscriber(made, task.id, ends=TERMINAL_OR_INTERRUPTED)
    await clock.passes(1)
    assert await reader.end() == ["input-required"]


# ── Resumed streams ───────────────────────────────────────────────────────────────────────────────────────────────────


async def held() -> tuple[Any, GatedAgent, str, "asyncio.Task[Any]"]:
    agent = GatedAgent()
    made = parts(agent)
    sending = asyncio.create_task(send_task(made.service, CallContext("owner", "test"), request()))
    await agent.spoke.wait()
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    return made, agent, key.task_id, sending


async def streamed_from(made: Any, task_id: str, last: str) -> list[str]:
    call = CallContext("owner", "test", last_event_id=last)
    return [item.id async for batch in made.service.subscribe(call, task_id) for item in batch if item.id]


@each_row(
    ("last", "expected"),
    [
        ("", ["2", "2.1.0", "2.1.1", "3"]),
        ("1", ["2", "2.1.0", "2.1.1", "3"]),
        ("2", ["2.1.0", "2.1.1", "3"]),
        ("2.1.0", ["2.1.1", "3"]),
        ("2.0.7", ["2.1.0", "2.1.1", "3"]),
        ("99", ["2", "2.1.0", "2.1.1", "3"]),
        ("garbage", ["2", "2.1.0", "2.1.1", "3"]),
        ("2.1", ["2", "2.1.0", "2.1.1", "3"]),
        ("-1", ["2", "2.1.0", "2.1.1", "3"]),
        ("0", ["2", "2.1.0", "2.1.1", "3"]),
        ("²", ["2", "2.1.0", "2.1.1", "3"]),
        ("9" * 40, ["2", "2.1.0", "2.1.1", "3"]),
    ],
)
async def test_subscriber_receives_everything_after_last_event_id(last: str, expected: list[str]) -> None:
    """Resume after any Last-Event-ID: the received items have no gap and no repeat."""
    made, agent, task_id, sending = await held()
    stream = made.service.subscribe(CallContext("owner", "test", last_event_id=last), task_id)
    batches = [await anext(stream)]
    agent.go.set()
    batches += [batch async for batch in stream]
    assert [item.id for batch in batches for item in batch if item.id] == expected
    await sending


async def test_last_event_id_resumes_stream_of_ended_task() -> None:
    """Resume before the task's last event: it arrives. Resume after it: the server returns an error."""
    agent = GatedAgent()
    agent.go.set()
    async with http(parts(agent).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
        for method in ("SubscribeToTask", "tasks/resubscribe"):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task["id"]}}
            rest = await client.post("/", json=body, headers={"Last-Event-ID": "2"})
            assert rest.headers["content-type"].startswith("text/event-stream")
            ids = [line.removeprefix("id: ") for line in rest.text.splitlines() if line.startswith("id: ")]
            assert ids == ["2.1.0", "2.1.1", "3"]
            all_items = await client.post("/", json=body, headers={"Last-Event-ID": "3"})
            # v0.3 refuses a subscription by a stream whose only frame is the error.
            refusal = all_items.text.rpartition("data: ")[2]
            assert json.loads(refusal)["error"]["code"] == -32004
