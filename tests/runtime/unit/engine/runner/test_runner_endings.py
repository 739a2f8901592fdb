"""Ends of turns under failures and deadlines."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.clock import SystemClock
from aion_core.engine.admission import repeats
from aion_core.engine.agent import AgentMessage, Chunk, Emission, Paused, Reply, TurnRequest
from aion_core.engine.call import CallContext
from aion_core.engine.outcomes import TurnFinished, TurnStarted
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.queues import WakeUp
from aion_core.engine.records import Cursor, Delta, DeltaBatch, Head, Lease, Log
from aion_core.engine.stream import subscription
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.stream.shared_reads import SharedReads
from aion_core.engine.sweep import Sweep
from aion_core.engine.task import timestamps
from aion_core.engine.timers import Claimed, ExpiredTimer
from aion_core.errors import CANCELED_ITSELF, AgentFailed, StoreCorrupt, StoreUnavailable
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import Event, Message, Part, Role, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table.keys import ContextKey, TaskKey
from tests.support.agents.scripted import GatedAgent, says
from tests.support.clock import ManualClock, settle
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import parts, send_task
from tests.support.stores import MemoryTaskStore

COMPLETED, FAILED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED
CONTEXT = ContextKey("owner", "test", "c")


def free(agent: GatedAgent) -> GatedAgent:
    agent.go.set()
    return agent


class Enqueued(MemoryWorkQueue):
    """Work queue that only records its messages."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.enqueued: list[tuple[WakeUp, float]] = []

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
        self.enqueued.append((wake_up, delay))
        await super().enqueue(wake_up, delay=delay)


async def test_turn_publishes_its_end_after_late_store_response() -> None:
    """The heartbeat finds the lease released before the turn gets the response to its own release."""

    class Late(MemoryTaskStore):
        async def finish(self, *args: Any, **options: Any) -> TurnFinished:
            ended = await super().finish(*args, **options)
            await asyncio.sleep(0.3)
            return ended

    clock = SystemClock()
    made = parts(free(GatedAgent()), Late(clock), clock, lease_seconds=0.15)
    call = CallContext("owner", "test")
    items = [item async for batch in made.service.stream(call, request()) for item in batch]
    assert [item.id for item in items][-1] == "3"
    assert items[-1].payload.status.state == COMPLETED  # type: ignore[union-attr]


async def test_wake_up_is_enqueued_for_queued_turn_at_deadline() -> None:
    """The process has no time for the second turn: it enqueues a wake-up message. No sweep runs here."""
    clock = ManualClock()
    agent = GatedAgent()
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000)
    ends_soon = CallContext("owner", "test", deadline=Deadline(clock.now() + timedelta(seconds=50)))
    first = asyncio.create_task(send_task(made.service, ends_soon, request("one")))
    await agent.spoke.wait()
    second = await send_task(
        made.service, CallContext("owner", "test"), request("two", message_id="m-2", return_immediately=True)
    )
    await made.work_queue.quiet()
    assert agent.asked == ["one"]
    agent.go.set()
    await first
    await made.work_queue.quiet()
    assert agent.asked == ["one", "two"]
    assert (await made.service.get(ends_soon, second.id)).status.state == COMPLETED


@pytest.mark.parametrize("how", ["behind it", "again"])
async def test_repeated_message_runs_turn_of_dead_lease_holder(how: str) -> None:
    """Repeat the message after the lease has expired: the request itself runs the turn, without any queue message."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    agent = free(GatedAgent())
    made = parts(agent, store, clock)
    made.work_queue.close()
    call = CallContext("owner", "test")
    task = await send_task(made.service, call, request("one", return_immediately=True))
    await store.begin(CONTEXT, holder="dies")
    clock.move(31)
    next_one = request("one") if how == "again" else request("two", message_id="m-2")
    answering = asyncio.create_task(send_task(made.service, call, next_one))
    async with asyncio.timeout(60):
        while not answering.done():
            # Sleep in real time, because the store pauses in real time before it retries a refused transaction.
            await asyncio.sleep(0.001)
            clock.move(0.1)
    assert (await answering).status.state == COMPLETED
    assert (await made.service.get(call, task.id)).status.state == COMPLETED
    assert agent.asked == (["one"] if how == "again" else ["one", "two"])


class Draining:
    """Agent that streams a chunk, and pauses at a step boundary when drained."""

    def __init__(self) -> None:
        self.spoke = asyncio.Event()

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield Chunk("half a ", f"call-{asked.turn.handoffs}")
        self.spoke.set()
        if not asked.turn.handoffs:
            await asked.drain.wait()
            yield Paused()
            return
        yield Reply(says("whole"))


async def test_suspended_turn_marks_its_streamed_text_as_interrupted() -> None:
    """Suspend the turn during a text: readers get a last chunk with the reason `interrupted`."""
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    agent = Draining()
    made = parts(agent, store, clock, lease_seconds=10_000)
    made.work_queue.handled_by(lambda wake_up: asyncio.sleep(0))
    deadline = Deadline()
    call = CallContext("owner", "test", deadline=deadline)
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await agent.spoke.wait()
    deadline.now.set()
    while call.background:
        await asyncio.sleep(0)
    (key,) = store.task_keys()
    chunks = [chunk for batch in await store.deltas(key, since=Cursor()) for chunk in batch.chunks]
    assert [(chunk.text, chunk.last, chunk.reason) for chunk in chunks] == [
        ("half a ", False, ""),
        ("", True, "interrupted"),
    ]
    sending.cancel()


class Ordered(MemoryTaskStore):
    """Task store that records in which order deltas and events are written."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.order: list[str] = []

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        await super().append_deltas(key, batch)
        self.order.append("".join(chunk.text for chunk in batch.chunks))

    async def append(self, lease: Lease, head: Head, *events: Event, keys: Sequence[str] = ()) -> Head:
        self.order.append("event")
        return await super().append(lease, head, *events, keys=keys)


async def test_chunks_are_stored_before_the_next_event() -> None:
    """Store chunks, then the event: a reader of the event can always read the chunks before it."""

    class Streams(GatedAgent):
        async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
            for word in ("one ", "two "):
                yield Chunk(word, "call")
            yield AgentMessage(says("said"))
            yield Reply(says("done"))

    clock = SystemClock()
    store = Ordered(clock)
    await send_task(parts(Streams(), store, clock).service, CallContext("owner", "test"), request())
    assert "".join(store.order) == "one two event"


async def test_reader_receives_event_before_chunks_written_after_it() -> None:
    """Write an event and its chunk between the reader's two reads: the next read returns both, in order."""

    class Between(MemoryTaskStore):
        written = False

        async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
            log = await super().log(key, after=after)
            if after == 2 and not self.written and self.lease is not None:
                self.written = True
                head = await self.append(self.lease, self.begun_head, self.event)
                await self.append_deltas(key, DeltaBatch(head.generation, head.fence, 0, (self.chunk,)))
            return log

        lease: Lease | None = None
        begun_head: Any = None
        event: Any = None
        chunk: Any = None

    clock = ManualClock()
    store = Between(clock)
    made = parts(GatedAgent(), store, clock)
    made.work_queue.close()
    task = await send_task(made.service, CallContext("owner", "test"), request(return_immediately=True))
    begun = await store.begin(CONTEXT, holder="here")
    assert isinstance(begun, TurnStarted)
    store.lease, store.begun_head = begun.lease, begun.head
    store.event = TaskStatusUpdateEvent(status=timestamps.status_at(TaskState.TASK_STATE_WORKING, clock.now()))
    store.chunk = Delta("word", append=False)
    tail = subscription.tail(SharedReads(store, clock), TaskKey("owner", task.id), clock, after=Cursor(2))
    reading = asyncio.ensure_future(anext(tail))
    while not reading.done():
        await asyncio.sleep(0)
        clock.move(0.1)
    assert [item.id for item in await reading] == ["3", "3.1.0"]
    await tail.aclose()


async def test_sweep_skips_timers_claimed_by_another_sweep() -> None:
    clock = ManualClock()

    class ClaimedElsewhere(MemoryTaskStore):
        async def claim(self, expired_timers: ExpiredTimer) -> Claimed:
            return Claimed.NOT

    store = ClaimedElsewhere(clock)
    made = parts(GatedAgent(), store, clock)
    made.work_queue.close()
    await send_task(made.service, CallContext("owner", "test"), request(return_immediately=True))
    clock.move(31)
    work_queue = Enqueued(clock)
    swept = await Sweep(store, work_queue).once()
    assert (swept.found, swept.enqueued, work_queue.enqueued) == (0, 0, [])


@pytest.mark.parametrize("gone", ["the log", "the message"])
async def test_unreadable_task_does_not_block_next_turn_of_context(gone: str) -> None:
    clock = SystemClock()

    class BrokenTurn(MemoryTaskStore):
        broken = ""

        async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
            log = await super().log(key, after=after)
            if log is None or key.task_id != self.broken:
                return log
            if gone == "the log":
                raise StoreCorrupt("The payload of an event is missing.")
            return Log(log.head, tuple(replace(entry, message=None) for entry in log.events[1:]))

    store = BrokenTurn(clock)
    agent = free(GatedAgent())
    made = parts(agent, store, clock)
    made.work_queue.handled_by(lambda wake_up: asyncio.sleep(0))
    call = CallContext("owner", "test")
    first = await send_task(made.service, call, request("one", return_immediately=True))
    second = await send_task(made.service, call, request("two", message_id="m-2", return_immediately=True))
    store.broken = first.id
    await made.worker.handle(WakeUp(CONTEXT))
    head = await store.head(TaskKey("owner", first.id))
    assert head is not None
    assert head.state == FAILED
    assert (await made.service.get(call, second.id)).status.state == COMPLETED
    assert agent.asked == ["two"]


async def test_turn_is_retried_later_after_store_error() -> None:
    clock = ManualClock()

    class Refusing(MemoryTaskStore):
        async def finish(self, *given: Any, **options: Any) -> TurnFinished:
            raise StoreUnavailable("throttled")

    store = Refusing(clock)
    made = parts(free(GatedAgent()), store, clock, lease_seconds=30)
    work_queue = Enqueued(clock)
    work_queue.handled_by(lambda wake_up: asyncio.sleep(0))
    made.worker._runner._work_queue = work_queue
    made.work_queue.close()
    await send_task(made.service, CallContext("owner", "test"), request(return_immediately=True))
    begun = await store.begin(CONTEXT, holder="here")
    log = await store.log(next(iter(store.task_keys())))
    assert log is not None
    await made.worker.run(begun, EventBroadcast(log.events))  # type: ignore[arg-type]
    assert work_queue.enqueued == [(WakeUp(CONTEXT), 15.0)]
    work_queue.close()


async def test_reader_survives_short_outage_of_store() -> None:
    clock = ManualClock()

    class Away(MemoryTaskStore):
        away = 0

        async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
            if self.away:
                self.away -= 1
                raise StoreUnavailable("away")
            return await super().log(key, after=after)

    store = Away(clock)
    agent = GatedAgent()
    made = parts(agent, store, clock, lease_seconds=10_000)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await agent.spoke.wait()
    (key,) = store.task_keys()
    items: list[str] = []

    async def follow() -> None:
        async for batch in made.service.subscribe(call, key.task_id):
            items.extend(item.id for item in batch)

    following = asyncio.create_task(follow())
    await settle()
    store.away = 4
    agent.go.set()
    while not following.done():
        clock.move(0.3)
        await asyncio.sleep(0)
    await following
    await sending
    assert items[-1] == "3"


async def test_blocking_send_returns_before_its_deadline() -> None:
    """The deadline is sooner than `blocking_wait`: the response has the task as it is then."""
    clock = ManualClock()
    agent = GatedAgent()
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + timedelta(seconds=60)))
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await agent.spoke.wait()
    for _ in range(55):
        clock.move(1)
        for _ in range(5):
            await asyncio.sleep(0)
    assert sending.done()
    assert (await sending).status.state == TaskState.TASK_STATE_WORKING
    agent.go.set()
    made.work_queue.close()


async def test_repeated_answer_is_recognised_by_task_history() -> None:
    """Repeat an answer whose message key has expired: the task's history still identifies it."""
    taken = Message(message_id="m-2", role=Role.ROLE_USER, task_id="t", context_id="c", parts=[Part(text="yes")])
    task = Task(id="t", context_id="c", history=[taken])
    for task_id in ("", "t"):
        again = Message(message_id="m-2", role=Role.ROLE_USER, task_id=task_id, parts=[Part(text="yes")])
        assert repeats.holds_message(task, again)


@pytest.mark.parametrize(("left", "answered"), [(50, ["one"]), (3600, ["one", "two"])])
async def test_next_turn_begins_only_with_enough_remaining_time(left: float, answered: list[str]) -> None:
    """No wake-up message arrives: with enough time the first turn's process runs the second turn, else not."""
    clock = ManualClock()
    agent = free(GatedAgent())
    agent.go.clear()
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000)
    made.work_queue.close()
    first_call = CallContext("owner", "test", deadline=Deadline(clock.now() + timedelta(seconds=left)))
    first = asyncio.create_task(send_task(made.service, first_call, request("one")))
    await agent.spoke.wait()
    await send_task(
        made.service, CallContext("owner", "test"), request("two", message_id="m-2", return_immediately=True)
    )
    agent.go.set()
    await first
    for work in list(first_call.background):
        await work
    assert agent.asked == answered


async def test_agent_raising_cancelled_error_fails_its_turn() -> None:
    """Raise CancelledError as a library's cancel scope may do: the turn fails without a sweep."""

    class CancelsItself(GatedAgent):
        async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
            raise asyncio.CancelledError
            yield

    clock = ManualClock()
    made = parts(CancelsItself(), MemoryTaskStore(clock), clock)
    task = await send_task(made.service, CallContext("owner", "test"), request("hi"))
    assert (task.status.state, task.status.message.parts[0].text) == (FAILED, CANCELED_ITSELF)


class Panic(BaseException):
    """Error that is no Exception, like the panics of libraries in Rust."""


@each_row(
    ("error", "reason"),
    [
        (Panic("overflow"), "Panic: the agent could not finish this turn."),
        (BaseExceptionGroup("g", [Panic("a"), OSError()]), "BaseExceptionGroup: the agent could not finish this turn."),
        (ExceptionGroup("g", [ExceptionGroup("h", [OSError()])]), "OSError: the agent could not finish this turn."),
        (ExceptionGroup("g", [AgentFailed("No data.")]), "No data."),
        (AgentFailed("half a pair: \ud800"), "half a pair: ?"),
    ],
)
async def test_unusual_error_of_agent_fails_its_turn(
    error: BaseException, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Raise an error that is no Exception, a group, or a text without a UTF-8 form: the turn fails without a sweep."""
    # Set the level of this logger, because an earlier test may have set the level of the package's logger. pytest-xdist
    # cannot send a captured log line without a UTF-8 form.
    caplog.set_level(logging.CRITICAL, "aion_core.engine.runner")

    class Raises(GatedAgent):
        async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
            raise error
            yield

    clock = ManualClock()
    made = parts(Raises(), MemoryTaskStore(clock), clock)
    task = await asyncio.wait_for(send_task(made.service, CallContext("owner", "test"), request("hi")), 60)
    assert (task.status.state, task.status.message.parts[0].text) == (FAILED, reason)


async def test_turn_of_removed_agent_fails_with_explanation() -> None:
    made = parts(free(GatedAgent()), MemoryTaskStore(clock := ManualClock()), clock)
    task = await asyncio.wait_for(send_task(made.service, CallContext("owner", "removed"), request("hi")), 60)
    assert task.status.state == FAILED
    assert task.status.message.parts[0].text.startswith("The agent 'removed' is no longer in aion.yaml")
