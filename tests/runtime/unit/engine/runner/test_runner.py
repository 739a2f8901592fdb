"""Runner and worker: wake-up messages, the sweep, and handoffs of long turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from aion_core.engine.agent import Emission, TurnRequest
from aion_core.engine.call import CallContext
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.process.deadline import Deadline, margins
from aion_core.engine.queues import WakeUp
from aion_core.engine.runner import failures
from aion_core.engine.stream import subscription
from aion_core.engine.stream.broadcast import StreamItem
from aion_core.engine.stream.shared_reads import SharedReads
from aion_core.engine.sweep import Sweep
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import Task, TaskState
from aion_core.table.keys import ContextKey, TaskKey
from tests.support.agents.scripted import GatedAgent, Stepping
from tests.support.clock import ManualClock, settle
from tests.support.histories import before_status
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import ServiceParts, parts, send_task
from tests.support.stores import MemoryTaskStore
from tests.support.traces import KeptTraces, tree

# ── Wake-up messages ──────────────────────────────────────────────────────────────────────────────────────────────────

CONTEXT = ContextKey("owner", "test", "c")
COMPLETED = TaskState.TASK_STATE_COMPLETED


class Deaf(MemoryWorkQueue):
    """Work queue that records its messages and delivers none."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.enqueued: list[tuple[WakeUp, float]] = []

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
        self.enqueued.append((wake_up, delay))

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        self.enqueued.append((wake_up, delay))


class Sour(GatedAgent):
    """Agent that raises an error when it is canceled, like a model client without CancelledError handling."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        try:
            async with aclosing(super().run(asked)) as emissions:
                async for emission in emissions:
                    yield emission
        except asyncio.CancelledError:
            raise RuntimeError("the connection was closed") from None


async def test_sweep_starts_turn_whose_wake_up_message_was_lost() -> None:
    clock = ManualClock()
    agent = GatedAgent()
    agent.go.set()
    made = parts(agent, MemoryTaskStore(clock), clock)
    made.work_queue.close()
    call = CallContext("owner", "test")
    task = await send_task(made.service, call, request(return_immediately=True))
    assert task.status.state == TaskState.TASK_STATE_WORKING, "a failed enqueue fails no request"
    work_queue = Deaf(clock)
    sweep = Sweep(made.store, work_queue)
    assert (await sweep.once()).found == 0, "the wake-up message has one lease term"
    clock.move(31)
    assert await sweep.once() == await _swept(1, 1)
    assert work_queue.enqueued == [(WakeUp(CONTEXT), 0.0)]
    assert (await sweep.once()).enqueued == 0, "claimed timers stay claimed for a while"
    await made.worker.handle(WakeUp(CONTEXT))
    assert (await made.service.get(call, task.id)).status.state == COMPLETED
    clock.move(1000)
    assert (await sweep.once()).found == 0


async def _swept(found: int, enqueued: int) -> object:
    from aion_core.engine.sweep import Swept

    return Swept(found, enqueued)


async def test_next_sweep_enqueues_wake_up_message_again_after_failure() -> None:
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    made = parts(GatedAgent(), store, clock)
    made.work_queue.close()
    await send_task(made.service, CallContext("owner", "test"), request(return_immediately=True))
    clock.move(31)
    broken = MemoryWorkQueue(clock)
    broken.close()
    swept = await Sweep(store, broken).once()
    assert (swept.found, swept.enqueued) == (1, 0)
    clock.move(61)
    assert (await Sweep(store, Deaf(clock)).once()).enqueued == 1


async def test_woken_worker_takes_over_turn_of_dead_lease_holder() -> None:
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    agent = GatedAgent()
    agent.go.set()
    made = parts(agent, store, clock)
    made.work_queue.close()
    task = await send_task(made.service, CallContext("owner", "test"), request(return_immediately=True))
    begun = await store.begin(CONTEXT, holder="dies")
    assert isinstance(begun, TurnStarted)
    work_queue = Deaf(clock)
    made.worker._work_queue = work_queue
    watching = WakeUp(CONTEXT, begun.lease.fence)
    await made.worker.handle(watching)
    ((again, delay),) = work_queue.enqueued
    assert again == watching
    assert 30 <= delay <= 32, "it is redelivered after the end of the lease"
    await made.worker.handle(WakeUp(CONTEXT, begun.lease.fence + 7))
    await made.worker.handle(WakeUp(CONTEXT))
    assert len(work_queue.enqueued) == 1, "no other message watches the lease"
    clock.move(20)
    await made.worker.handle(WakeUp(CONTEXT))
    ((again, delay),) = work_queue.enqueued[1:]
    assert again == WakeUp(CONTEXT)
    assert 10 < delay <= 11, "a live holder renews earlier"
    clock.move(delay)
    await made.worker.handle(watching)
    got = await made.service.get(CallContext("owner", "test"), task.id)
    assert got.status.state == COMPLETED
    assert agent.asked == ["hi"]


async def test_needless_wake_up_message_changes_nothing() -> None:
    made = parts(GatedAgent())
    for wake_up in (WakeUp(CONTEXT), WakeUp(ContextKey("nobody", "test", "c")), WakeUp(CONTEXT, 3)):
        await made.worker.handle(wake_up)


async def test_wake_up_message_is_redelivered_after_store_error() -> None:
    clock = ManualClock()

    class Down(MemoryTaskStore):
        async def begin(self, context: ContextKey, *, holder: str, ended_wait: int = 0) -> TurnStarted:
            raise StoreUnavailable("down")

    made = parts(GatedAgent(), Down(clock), clock)
    try:
        await made.worker.handle(WakeUp(CONTEXT))
    except StoreUnavailable:
        return
    raise AssertionError("it was swallowed")


async def test_one_wake_up_message_runs_queued_turns_in_order() -> None:
    agent = GatedAgent()
    agent.go.set()
    made = parts(agent)
    call = CallContext("owner", "test")
    await asyncio.gather(
        *(
            send_task(made.service, call, request(f"{n}", message_id=f"m-{n}", return_immediately=True))
            for n in range(5)
        )
    )
    await made.work_queue.quiet()
    assert agent.asked == [f"{n}" for n in range(5)]


# ── Handoffs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


INVOCATION = timedelta(minutes=15)


async def let_time_pass(clock: ManualClock, until: "asyncio.Task[object]", *, step: float = 5.0) -> None:
    """Move the clock until the asyncio task is done."""
    for _ in range(5000):
        if until.done():
            return
        clock.move(step)
        await settle()
    raise AssertionError("it does not end")


async def let_all_end(made: ServiceParts, call: CallContext, clock: ManualClock) -> None:
    """Move the clock until the turns that the call started, and all handlers of wake-up messages, have ended."""
    for work in list(call.background):
        await let_time_pass(clock, work)
    await let_time_pass(clock, asyncio.create_task(made.work_queue.quiet()))


def with_invocations(made: ServiceParts, clock: ManualClock) -> None:
    """Handle each wake-up message in a process of its own, which ends after 15 minutes."""
    made.work_queue.handled_by(lambda wake_up: made.worker.handle(wake_up, until=clock.now() + INVOCATION))


async def test_turn_of_forty_minutes_runs_each_step_once() -> None:
    clock = ManualClock()
    agent, kept = Stepping(240, 10.0, clock), KeptTraces(clock)
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000, tracer=kept.tracer)
    with_invocations(made, clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION))
    items: list[str] = []

    async def watch(task_id: str) -> None:
        async for batch in subscription.tail(SharedReads(made.store, clock), TaskKey("owner", task_id), clock):
            items.extend(item.id for item in batch)

    sending = asyncio.create_task(send_task(made.service, call, request()))
    await settle()
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    watching = asyncio.create_task(watch(key.task_id))
    await let_time_pass(clock, sending)
    assert (await sending).status.state == TaskState.TASK_STATE_WORKING, "after blocking_wait"
    await let_all_end(made, call, clock)
    task = await made.service.get(call, key.task_id)
    assert task.status.state == COMPLETED
    assert agent.ran == Counter(range(240)), "each step once"
    assert agent.handoffs == [0, 1, 2]
    said = [message.parts[0].text for message in before_status(task)]
    assert said == ["hi", *(f"step {n}" for n in range(240))]
    await let_time_pass(clock, watching)
    assert items == [str(n) for n in range(1, 244)]
    assert [tree(each.steps) for each in await kept.tries()] == [
        ["agent test"],
        ["agent test", "  handoff handoff 1: the process before reached its deadline"],
        ["agent test", "  handoff handoff 2: the process before reached its deadline"],
    ]


async def test_turn_without_progress_fails_after_maximum_tries() -> None:
    clock = ManualClock()
    agent = GatedAgent()
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000, max_tries=3)
    with_invocations(made, clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION))
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await agent.spoke.wait()
    await let_time_pass(clock, sending)
    await let_all_end(made, call, clock)
    task = await made.service.get(call, (await sending).id)
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert "3 times" in task.status.message.parts[0].text
    assert agent.asked == ["hi"] * 3
    assert agent.stopped == 3


async def test_error_of_canceled_agent_does_not_fail_task() -> None:
    clock = ManualClock()
    agent = Sour()
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000)
    with_invocations(made, clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION))
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await agent.spoke.wait()
    await let_time_pass(clock, sending)
    for work in list(call.background):
        await let_time_pass(clock, work)
    assert agent.stopped == 1
    agent.go.set()
    await let_all_end(made, call, clock)
    task = await made.service.get(call, (await sending).id)
    assert task.status.state == COMPLETED, task.status.message
    assert agent.asked == ["hi", "hi"]


async def test_turn_fails_after_maximum_handoffs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand the turn off at each step without progress: after the maximum the task fails."""
    monkeypatch.setattr(failures, "MAX_HANDOFFS", 5)
    clock = ManualClock()
    agent = Stepping(1000, 600.0, clock)
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000)
    with_invocations(made, clock)
    task = await send_task(made.service, CallContext("owner", "test"), request(return_immediately=True))
    await let_time_pass(clock, asyncio.create_task(made.work_queue.quiet()))
    task = await made.service.get(CallContext("owner", "test"), task.id)
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert "suspended too often" in task.status.message.parts[0].text


async def test_client_resumes_stream_that_ended_before_process_stop() -> None:
    clock = ManualClock()
    agent = Stepping(30, 60.0, clock)
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000)
    with_invocations(made, clock)
    ids: list[str] = []

    async def listen(last: str) -> None:
        call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION), last_event_id=last)
        stream = made.service.subscribe(call, key.task_id) if last else made.service.stream(call, request())
        async for batch in stream:
            ids.extend(item.id for item in batch if item.id)

    first = asyncio.create_task(listen(""))
    await settle()
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    await let_time_pass(clock, first)
    assert 0 < len(ids) < 30
    rounds = 1
    while ids[-1] != "33":
        await let_time_pass(clock, asyncio.create_task(listen(ids[-1])))
        rounds += 1
    assert ids == [str(n) for n in range(1, 34)], "every event once, over as many connections as it takes"
    assert rounds >= 3


async def test_stopping_process_suspends_turns_and_ends_streams() -> None:
    """Stop the process during a turn, as `aion dev` stops a worker after an edit."""
    clock = ManualClock()
    agent = Stepping(6, 60.0, clock)
    made = parts(agent, MemoryTaskStore(clock, lease_seconds=10_000), clock, lease_seconds=10_000)
    leave = asyncio.get_running_loop().create_future()
    stopping = Deadline(grace=1.0, leave=leave)
    call = CallContext("owner", "test", deadline=stopping)
    items: list[StreamItem] = []

    async def listen() -> None:
        async for batch in made.service.stream(call, request()):
            items.extend(batch)

    listening = asyncio.create_task(listen())
    await settle()
    blocked = asyncio.create_task(send_task(made.service, call, request(message_id="m-2", context_id="c-2")))
    while len(agent.ran) < 2 and agent.ran[0] < 2:
        clock.move(5)
        await asyncio.sleep(0)
    work_queue: list[WakeUp] = []

    async def hear(wake_up: WakeUp) -> None:
        work_queue.append(wake_up)

    made.work_queue.handled_by(hear)
    began = clock.now()
    stopping.now.set()
    for work in list(call.background):
        await let_time_pass(clock, work, step=0.5)
    assert (clock.now() - began).total_seconds() <= 2, "not the half minute of a Lambda invocation"
    await made.work_queue.quiet()
    assert len(work_queue) == 2, "both turns have a wake-up message"
    assert not listening.done(), "a successor may end the turn meanwhile"
    leave.set_result(None)
    await let_time_pass(clock, listening, step=0.5)
    await let_time_pass(clock, blocked, step=0.5)
    assert (await blocked).status.state == TaskState.TASK_STATE_WORKING
    task = await made.service.get(call, items[0].payload.id)  # type: ignore[union-attr]
    assert task.status.state == TaskState.TASK_STATE_WORKING


async def test_turn_is_suspended_after_store_error() -> None:
    """Let a store call fail: this uses up one try, but does not fail the task."""
    from aion_core.errors import StoreUnavailable

    clock = ManualClock()

    class Troubled(MemoryTaskStore):
        trouble = 1

        async def append(self, *args: Any, **kwargs: Any) -> Any:
            if self.trouble:
                self.trouble -= 1
                raise StoreUnavailable("throttled")
            return await super().append(*args, **kwargs)

    store = Troubled(clock)
    agent = Stepping(3, 0.0, clock)
    made = parts(agent, store, clock)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(made.service, call, request()))
    await let_time_pass(clock, sending, step=0.2)
    task: Task = await sending
    assert task.status.state == COMPLETED
    assert agent.ran == Counter({0: 2, 1: 1, 2: 1})
    record = await store.begin(ContextKey("owner", "test", "c"), holder="x")
    assert not isinstance(record, TurnStarted)


@each_row(
    ("seconds", "drained", "cut"),
    [(900, 30, 12), (120, 30, 12), (60, 15, 7.5), (20, 8, 5), (6, 8, 5)],
)
def test_turn_is_asked_to_stop_then_cancelled_before_deadline(seconds: float, drained: float, cut: float) -> None:
    """The turn must release its lease: a stop by the runtime's timeout would leave the lease until it expires."""
    now = ManualClock().now()
    assert margins(Deadline(now + timedelta(seconds=seconds)), now) == (drained, cut)
