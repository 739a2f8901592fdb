"""Handoffs of turns longer than their process."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from aion_core.ports import ContextKey, TaskKey, TurnStarted, WakeUp
from aion_core.protocol.types import Task, TaskState
from aion_core.tasks import runner, subscription
from aion_core.tasks.broadcast import StreamItem
from aion_core.tasks.call import CallContext, Deadline, margins
from aion_core.tasks.subscription import SharedReads
from tests.support.agents.scripted import LeaseHeld, Sour, Stepping
from tests.support.clock import ManualClock
from tests.support.requests import request
from tests.support.service import Parts, parts
from tests.support.stores import MemoryTaskStore

COMPLETED = TaskState.TASK_STATE_COMPLETED
INVOCATION = timedelta(minutes=15)


async def let_time_pass(clock: ManualClock, until: "asyncio.Task[object]", *, step: float = 5.0) -> None:
    """Move the clock until the task is done."""
    for _ in range(5000):
        if until.done():
            return
        clock.move(step)
        for _ in range(12):
            await asyncio.sleep(0)
    raise AssertionError("it does not end")


async def let_all_end(made: Parts, call: CallContext, clock: ManualClock) -> None:
    """Move the clock until the processes of the call and of all wake-up messages have ended."""
    for work in list(call.background):
        await let_time_pass(clock, work)
    await let_time_pass(clock, asyncio.create_task(made.work_queue.quiet()))


def with_invocations(made: Parts, clock: ManualClock) -> None:
    """Handle each wake-up message in a process of 15 minutes."""
    made.work_queue.handled_by(lambda wake_up: made.worker.handle(wake_up, until=clock.now() + INVOCATION))


async def test_turn_of_forty_minutes_runs_steps_once() -> None:
    clock = ManualClock()
    agent = Stepping(240, 10.0, clock)
    made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000)
    with_invocations(made, clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION))
    heard: list[str] = []

    async def watch(task_id: str) -> None:
        async for batch in subscription.tail(SharedReads(made.store, clock), TaskKey("owner", task_id), clock):
            heard.extend(spoken.id for spoken in batch)

    sending = asyncio.create_task(made.service.send(call, request()))
    await asyncio.sleep(0.01)
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    watching = asyncio.create_task(watch(key.task_id))
    await let_time_pass(clock, sending)
    assert (await sending).status.state == TaskState.TASK_STATE_WORKING, "after blocking_wait"
    await let_all_end(made, call, clock)
    task = await made.service.get(call, key.task_id)
    assert task.status.state == COMPLETED
    assert agent.ran == Counter(range(240)), "each step once"
    assert agent.handoffs == [0, 1, 2]
    said = [message.parts[0].text for message in task.history]
    assert said == ["hi", *(f"step {n}" for n in range(240))]
    await let_time_pass(clock, watching)
    assert heard == [str(n) for n in range(1, 244)]


async def test_turn_without_steps_fails_after_its_tries() -> None:
    clock = ManualClock()
    agent = LeaseHeld()
    made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000, max_tries=3)
    with_invocations(made, clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION))
    sending = asyncio.create_task(made.service.send(call, request()))
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
    made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000)
    with_invocations(made, clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION))
    sending = asyncio.create_task(made.service.send(call, request()))
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


async def test_handoffs_of_turn_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that pauses at once each time makes no progress."""
    monkeypatch.setattr(runner, "MAX_HANDOFFS", 5)
    clock = ManualClock()
    agent = Stepping(1000, 600.0, clock)
    made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000)
    with_invocations(made, clock)
    task = await made.service.send(CallContext("owner", "test"), request(return_immediately=True))
    await let_time_pass(clock, asyncio.create_task(made.work_queue.quiet()))
    task = await made.service.get(CallContext("owner", "test"), task.id)
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert "suspended too often" in task.status.message.parts[0].text


async def test_stream_ends_before_its_process_and_resumes() -> None:
    clock = ManualClock()
    agent = Stepping(30, 60.0, clock)
    made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000)
    with_invocations(made, clock)
    ids: list[str] = []

    async def listen(last: str) -> None:
        call = CallContext("owner", "test", deadline=Deadline(clock.now() + INVOCATION), last_event_id=last)
        stream = made.service.subscribe(call, key.task_id) if last else made.service.stream(call, request())
        async for batch in stream:
            ids.extend(spoken.id for spoken in batch if spoken.id)

    first = asyncio.create_task(listen(""))
    await asyncio.sleep(0.01)
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
    """`aion dev` stops a worker like this after an edit: at any time, with a grace period of its own."""
    clock = ManualClock()
    agent = Stepping(6, 60.0, clock)
    made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000)
    stopping = Deadline(grace=1.0)
    call = CallContext("owner", "test", deadline=stopping)
    heard: list[StreamItem] = []

    async def listen() -> None:
        async for batch in made.service.stream(call, request()):
            heard.extend(batch)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.01)
    blocked = asyncio.create_task(made.service.send(call, request(message_id="m-2", context_id="c-2")))
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
    assert len(work_queue) == 2, "another process is told of both turns"
    assert not listening.done(), "a successor may end the turn meanwhile"
    stopping.leave.set()
    await let_time_pass(clock, listening, step=0.5)
    await let_time_pass(clock, blocked, step=0.5)
    assert (await blocked).status.state == TaskState.TASK_STATE_WORKING
    task = await made.service.get(call, heard[0].payload.id)  # type: ignore[union-attr]
    assert task.status.state == TaskState.TASK_STATE_WORKING


async def test_turn_is_suspended_after_store_error() -> None:
    """A store error costs one try, not the task."""
    from aion_core.errors import StoreUnavailable

    clock = ManualClock()

    class Troubled(MemoryTaskStore):
        trouble = 1

        async def append(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            if self.trouble:
                self.trouble -= 1
                raise StoreUnavailable("throttled")
            return await super().append(*args, **kwargs)  # type: ignore[arg-type]

    store = Troubled(clock)
    agent = Stepping(3, 0.0, clock)
    made = parts(agent, store, clock)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.service.send(call, request()))
    await let_time_pass(clock, sending, step=0.2)
    task: Task = await sending
    assert task.status.state == COMPLETED
    assert agent.ran == Counter({0: 2, 1: 1, 2: 1})
    record = await store.begin(ContextKey("owner", "test", "c"), holder="x")
    assert not isinstance(record, TurnStarted)


@pytest.mark.parametrize(
    ("seconds", "drained", "cut"),
    [(900, 30, 12), (120, 30, 12), (60, 15, 7.5), (20, 8, 5), (6, 8, 5)],
)
def test_turn_is_drained_then_canceled_before_deadline(seconds: float, drained: float, cut: float) -> None:
    """The runtime's own timeout 3 s before the end would leave the turn to its lease."""
    now = ManualClock().now()
    assert margins(Deadline(now + timedelta(seconds=seconds)), now) == (drained, cut)
