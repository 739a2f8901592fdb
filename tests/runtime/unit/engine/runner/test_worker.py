"""Turns that wait: nothing runs meanwhile, and the worker resumes them at their time."""

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from functools import partial

import pytest

from aion_core.engine.agent import AgentMessage, Emission, Reply, Suspended, TurnRequest
from aion_core.engine.call import CallContext
from aion_core.engine.queues import WakeUp
from aion_core.engine.sweep import Sweep
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import Task, TaskState
from aion_core.table.keys import ContextKey
from aion_core.table.times import milliseconds
from aion_core.telemetry import Metric
from tests.support.agents.scripted import says
from tests.support.clock import ManualClock, settle
from tests.support.metrics import MemoryMetrics
from tests.support.requests import request
from tests.support.service import ServiceParts, parts, send_task
from tests.support.stores import MemoryTaskStore

WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
CALL = partial(CallContext, "owner", "test")
"""A new context for each call: its deadline belongs to one event loop."""
CONTEXT = ContextKey("owner", "test", "c")


class Sleeper:
    """Agent that waits until `until`, each time that it runs, and then answers."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        self._clock, self.until = clock, clock.now() + timedelta(seconds=seconds)
        self.runs: list[datetime] = []
        self.tries: list[int] = []

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.runs.append(self._clock.now())
        self.tries.append(asked.turn.tries)
        yield AgentMessage(says("begun"), key="begun")
        if self._clock.now() < self.until:
            yield Suspended("sleep", "Waiting for the morning.", self.until)
            return
        yield Reply(says("good morning"))


class Recorded(MemoryWorkQueue):
    """Queue that records its messages."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.sent: list[WakeUp] = []

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
        self.sent.append(wake_up)
        await super().enqueue(wake_up, delay=delay, urgent=urgent)


async def asleep(clock: ManualClock, agent: Sleeper) -> tuple[ServiceParts, Task]:
    made = parts(agent, MemoryTaskStore(clock), clock)
    task = await send_task(made.service, CALL(), request(return_immediately=True))
    await made.work_queue.quiet()
    return made, await made.service.get(CALL(), task.id)


async def passes(clock: ManualClock, seconds: float, *, step: float = 10.0) -> None:
    """Let the time pass in steps."""
    for _ in range(round(seconds / step)):
        clock.move(step)
        await settle()


@pytest.mark.parametrize("seconds", [60.0, 2400.0, 90_000.0])
async def test_turn_resumes_to_the_second_after_its_wait(seconds: float) -> None:
    clock = ManualClock()
    agent = Sleeper(clock, seconds)
    made, task = await asleep(clock, agent)
    assert (task.status.state, task.status.message.parts[0].text) == (WORKING, "Waiting for the morning.")
    await passes(clock, seconds - 10)
    assert len(agent.runs) == 1
    await passes(clock, 10, step=1)
    assert (await made.service.get(CALL(), task.id)).status.state == COMPLETED
    assert agent.tries == [1, 1]
    assert agent.runs[1] == agent.until


async def test_doubled_and_early_messages_change_no_wait() -> None:
    clock = ManualClock()
    agent = Sleeper(clock, 2400.0)
    made, task = await asleep(clock, agent)
    for wake_up in (WakeUp(CONTEXT), WakeUp(CONTEXT, 1), WakeUp(CONTEXT, look=milliseconds(clock.now()))):
        await made.worker.handle(wake_up)
    await passes(clock, 900)
    looks = WakeUp(CONTEXT, look=milliseconds(clock.now()))
    for _ in range(3):
        await made.worker.handle(looks)
    await settle()
    await passes(clock, 1490)
    assert len(agent.runs) == 1
    await passes(clock, 10, step=1)
    assert agent.tries == [1, 1]
    assert (await made.service.get(CALL(), task.id)).status.state == COMPLETED


async def test_sweep_resumes_wait_with_lost_message_uncounted() -> None:
    clock, metrics = ManualClock(), MemoryMetrics()
    agent = Sleeper(clock, 300.0)
    made, task = await asleep(clock, agent)
    made.work_queue.close()
    queue = Recorded(clock)
    queue.handled_by(made.worker.handle)
    sweep = Sweep(made.store, queue, metrics=metrics)
    clock.move(329)
    assert (await sweep.once()).enqueued == 0
    clock.move(2)
    swept = await sweep.once()
    assert (swept.found, swept.enqueued) == (0, 1)
    await queue.quiet()
    await settle()
    assert (await made.service.get(CALL(), task.id)).status.state == COMPLETED
    assert metrics.total(Metric.SWEEP_FOUND) == 0


async def test_turn_waits_although_its_message_cannot_be_sent() -> None:
    class Unavailable(MemoryWorkQueue):
        async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
            if wake_up.look:
                raise StoreUnavailable("no queue")
            await super().enqueue(wake_up, delay=delay, urgent=urgent)

    clock = ManualClock()
    agent = Sleeper(clock, 300.0)
    made = parts(agent, MemoryTaskStore(clock), clock)
    queue = Unavailable(clock)
    queue.handled_by(made.worker.handle)
    made.worker._work_queue = made.worker._runner._work_queue = queue
    task = await send_task(made.service, CALL(), request(return_immediately=True))
    await made.work_queue.quiet()
    clock.move(331)
    assert (await Sweep(made.store, queue).once()).enqueued == 1
    await queue.quiet()
    await settle()
    assert (await made.service.get(CALL(), task.id)).status.state == COMPLETED


async def test_agent_that_never_goes_on_after_its_wait_fails() -> None:
    """The agent suspends itself again under the same key, although its time has come."""

    class Stuck(Sleeper):
        async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
            self.tries.append(asked.turn.tries)
            yield Suspended("sleep", "Waiting.", self._clock.now() + timedelta(seconds=5))

    clock = ManualClock()
    agent = Stuck(clock, 5.0)
    made, task = await asleep(clock, agent)
    await passes(clock, 60, step=1)
    assert agent.tries == [1, 1, 2, 3]
    found = await made.service.get(CALL(), task.id)
    assert "3 times without progress" in found.status.message.parts[0].text


async def test_wait_beyond_retention_fails_task_with_reason() -> None:
    clock = ManualClock()
    _, task = await asleep(clock, Sleeper(clock, 400 * 86_400.0))
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert "Let it wait for a shorter time" in task.status.message.parts[0].text
