"""`RecordingQueue`, the event queue of an executor: order of events, wait until an event is recorded, cancellation."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.agents.executor import agent
from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.clock import SystemClock
from aion_core.engine.call import CallContext
from aion_core.engine.outcomes import TurnFinished
from aion_core.engine.records import Head, Lease
from aion_core.engine.runner import renewal, runner
from aion_core.errors import StoreUnavailable
from aion_core.protocol.types import Event, Task, TaskState
from tests.runtime.unit.agents.executor.executors import ScriptedExecutor, served, text, text_of
from tests.support.clock import settle
from tests.support.deployment import at, deployed
from tests.support.isolated import isolated_imports
from tests.support.requests import request
from tests.support.service import parts, send
from tests.support.stores import MemoryTaskStore


@pytest.fixture(autouse=True)
def notices_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn notice soon that its task is canceled."""
    monkeypatch.setattr(renewal, "WATCH_SECONDS", 0.05)


class SlowTaskStore(MemoryTaskStore):
    """Task store with the latency of a network."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.done = 0

    async def append(self, lease: Lease, head: Head, *events: Event, keys: Sequence[str] = ()) -> Head:
        await asyncio.sleep(0.02)
        head = await super().append(lease, head, *events, keys=keys)
        self.done += 1
        return head

    async def finish(self, *args: Any, **options: Any) -> TurnFinished:
        await asyncio.sleep(0.02)
        ended = await super().finish(*args, **options)
        self.done += 1
        return ended


async def answer_of(executor: ScriptedExecutor, store: MemoryTaskStore) -> Task:
    made = parts(ExecutorAgent(executor, store), store)
    task = await made.service.send(CallContext("owner", "test"), request())
    assert isinstance(task, Task)
    return task


async def test_enqueue_event_returns_after_event_is_recorded() -> None:
    """When `enqueue_event` returns, the log contains the event; this includes the last event of a turn."""
    store = SlowTaskStore()
    seen: list[int] = []

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("one")))
        seen.append(store.done)
        await updater.add_artifact(text("two"), "a")
        seen.append(store.done)
        await updater.complete()
        seen.append(store.done)

    await answer_of(ScriptedExecutor(execute), store)
    await settle()  # the client may have its answer before the executor goes on
    assert seen == [1, 2, 3]


async def test_events_that_wait_share_transactions() -> None:
    sizes: list[int] = []

    class Store(SlowTaskStore):
        async def append(self, lease: Lease, head: Head, *events: Event, keys: Sequence[str] = ()) -> Head:
            sizes.append(len(events))
            return await super().append(lease, head, *events, keys=keys)

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await asyncio.gather(*(updater.add_artifact(text(f"{n}"), f"a{n}") for n in range(60)))
        await updater.complete()

    task = await answer_of(ScriptedExecutor(execute), Store())
    assert [artifact.artifact_id for artifact in task.artifacts] == [f"a{n}" for n in range(60)]
    assert sizes == [25, 25, 10]


class FullTaskStore(MemoryTaskStore):
    """Task store that refuses every event."""

    async def append(self, lease: Lease, head: Head, *events: Event, keys: Sequence[str] = ()) -> Head:
        raise StoreUnavailable("full")


async def test_executor_stops_if_its_event_cannot_be_recorded() -> None:
    continued: list[str] = []
    stopped = asyncio.Event()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        try:
            await updater.add_artifact(text("charge the card next"), "a")
            continued.append("charged")
        except asyncio.CancelledError:
            stopped.set()
            raise

    store = FullTaskStore(SystemClock())
    made = parts(ExecutorAgent(ScriptedExecutor(execute), store), store)
    sending = asyncio.create_task(made.service.send(CallContext("owner", "test"), request()))
    await asyncio.wait_for(stopped.wait(), 60)
    sending.cancel()
    assert continued == []


async def test_executor_events_of_each_thread_stay_in_order() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        loop = asyncio.get_running_loop()

        def in_a_thread() -> None:
            for n in range(20):
                asyncio.run_coroutine_threadsafe(add(f"t{n}"), loop).result(60)

        def in_a_loop_of_its_own() -> None:
            async def all_of_them() -> None:
                for n in range(20):
                    await add(f"l{n}")

            asyncio.run(all_of_them())

        async def add(content: str) -> None:
            await updater.add_artifact(text(content), content)

        async def in_a_task() -> None:
            for n in range(20):
                await add(f"a{n}")

        await asyncio.gather(asyncio.to_thread(in_a_thread), asyncio.to_thread(in_a_loop_of_its_own), in_a_task())
        # Enqueue events by concurrent calls: the task must contain them in the order of the calls.
        await asyncio.gather(*(add(f"g{n}") for n in range(20)))
        await updater.complete()

    task = await served(execute).send()
    ids = [artifact.artifact_id for artifact in task.artifacts]
    for producer in "tlag":
        assert [id_ for id_ in ids if id_[0] == producer] == [f"{producer}{n}" for n in range(20)]


async def test_executor_events_after_end_of_turn_are_dropped() -> None:
    """An asyncio task outlives its turn: its events do not block, and do not appear in the next turn."""
    go = asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        async def later() -> None:
            await go.wait()
            for n in range(100):
                await updater.add_artifact(text("late"), str(n))

        left.append(asyncio.create_task(later()))
        await updater.add_artifact(text("in time"), "a")

    async def next_time(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        go.set()
        await left[0]
        await updater.add_artifact(text("in time"), "a")

    made = served(ScriptedExecutor(execute, next_time))
    task = await made.send()
    second = await asyncio.wait_for(made.send(message_id="m-2"), 60)
    assert [artifact.artifact_id for artifact in task.artifacts] == ["a"]
    assert [artifact.artifact_id for artifact in second.artifacts] == ["a"], "nor in the next turn"


async def test_executor_may_close_its_queue() -> None:
    """Check that the events before the call are recorded, and later events are dropped."""

    async def closes(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        early = asyncio.create_task(updater.add_artifact(text("early"), "early"))
        await asyncio.sleep(0)
        await queue.close()  # type: ignore[attr-defined]
        await updater.add_artifact(text("late"), "late")
        await early

    task = await served(closes).send()
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert [artifact.artifact_id for artifact in task.artifacts] == ["early"]


async def test_turns_of_one_executor_run_concurrently() -> None:
    both = asyncio.Barrier(2)

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await both.wait()
        await updater.complete(updater.new_agent_message(text(context.get_user_input())))

    made = served(execute)
    one, two = await asyncio.gather(
        made.send("one", context_id="c-1"), made.send("two", message_id="m-2", context_id="c-2")
    )
    assert (text_of(one.status.message), text_of(two.status.message)) == ("one", "two")


# ── Canceled tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


async def cancel_while(executor: ScriptedExecutor, begun: asyncio.Event) -> tuple[Task, Any]:
    made = served(executor, lease_seconds=3)
    sending = asyncio.create_task(made.send())
    await begun.wait()
    (key,) = made.store.task_keys()
    canceled = await made.parts.service.cancel(CallContext("owner", "test"), key.task_id)
    await asyncio.wait_for(sending, 60)
    return canceled, made


@pytest.mark.parametrize("sending", [False, True], ids=["idle", "sending"])
async def test_cancel_method_of_executor_runs_before_execute_stops(
    sending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the SDK, `cancel()` runs first, while `execute()` still holds its resources."""
    # After these limits, a turn stops `execute()` before the end of `cancel()`, and ends before `execute()`.
    for module, name in ((agent, "CANCEL_SECONDS"), (agent, "STOP_SECONDS"), (runner, "STOP_SECONDS")):
        monkeypatch.setattr(module, name, 60.0)
    begun, order = asyncio.Event(), list[str]()

    class Executor(ScriptedExecutor):
        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            order.append("cancel")
            await super().cancel(context, event_queue)
            order.append("canceled")

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("on it")))
        begun.set()
        try:
            while True:
                if sending:
                    await updater.add_artifact(text("more"), "a", append=True)
                await asyncio.sleep(0.01)
        finally:
            order.append("stopped")

    executor = Executor(execute)
    task, made = await cancel_while(executor, begun)
    assert task.status.state == TaskState.TASK_STATE_CANCELED
    assert order == ["cancel", "canceled", "stopped"]
    (canceling,) = executor.canceled
    assert canceling.current_task is not None
    assert (canceling.task_id, canceling.current_task.id) == (task.id, task.id)
    assert canceling.current_task.status.state == TaskState.TASK_STATE_WORKING
    assert canceling.current_task.artifacts == task.artifacts
    assert text_of(canceling.current_task.status.message) == "on it"
    assert [text_of(message) for message in canceling.current_task.history] == ["hi"], "as under the SDK's server"
    assert executor.contexts[0].current_task is None, "execute() keeps its own context"
    assert await made.parts.service.get(CallContext("owner", "test"), task.id) == task, "nothing follows"


async def test_executor_stops_despite_failing_or_hanging_cancel_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "CANCEL_SECONDS", 0.1)
    begun, stopped = asyncio.Event(), asyncio.Event()

    class Executor(ScriptedExecutor):
        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise NotImplementedError

    class Hanging(ScriptedExecutor):
        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            await asyncio.Event().wait()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    for kind in (Executor, Hanging):
        begun.clear()
        stopped.clear()
        await cancel_while(kind(execute), begun)
        await asyncio.wait_for(stopped.wait(), 60)


async def test_canceled_executor_may_report_its_cancellation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`execute()` and `cancel()` may send the status `canceled`, as under the SDK's server: nothing waits or warns."""
    for module in (agent, runner):
        monkeypatch.setattr(module, "STOP_SECONDS", 60.0)
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await updater.cancel()
            stopped.set()
            raise

    await asyncio.wait_for(cancel_while(ScriptedExecutor(execute), begun), 30)
    await asyncio.wait_for(stopped.wait(), 30)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("aion_core.agents")] == []


async def test_executor_is_not_canceled_when_turn_loses_its_lease() -> None:
    """Another process continues the task: `cancel()` here could stop the work there."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    executor = ScriptedExecutor(execute)
    made = served(executor, lease_seconds=3)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.parts.service.send(call, request()))
    await begun.wait()
    call.deadline.now.set()
    (work,) = call.background
    work.cancel()
    await asyncio.wait_for(stopped.wait(), 60)
    sending.cancel()
    assert executor.canceled == []


GATE = """
import asyncio

from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import Part


class Gate(AgentExecutor):
    def __init__(self):
        self.free, self.held = asyncio.Lock(), {}

    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await self.free.acquire()
        self.held[context.task_id] = self.free
        await updater.requires_input(updater.new_agent_message([Part(text="May I?")]))

    async def cancel(self, context, event_queue):
        task = context.current_task
        assert (task.id, task.status.message.parts[0].text) == (context.task_id, "May I?")
        assert (context.message, context.call_context.state["method"]) == (None, "CancelTask")
        self.held.pop(context.task_id).release()
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()
"""


async def test_cancel_method_runs_for_task_that_waits_for_client(tmp_path: Path) -> None:
    """The executor holds a lock for the waiting task, and releases it in `cancel()`. Then other tasks go on."""
    (tmp_path / "gate.py").write_text(GATE)
    with isolated_imports(tmp_path):
        app = deployed(tmp_path, "aion: {agents: {gate: {path: gate.py}}}")
        async with asyncio.timeout(60), app.router.lifespan_context(app), at(app) as client:
            for number in range(3):
                answer = (await client.post("/", json=send(message_id=f"m-{number}"))).json()["result"]["task"]
                assert answer["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
                canceling = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": answer["id"]}}
                canceled = (await client.post("/", json=canceling)).json()["result"]
                assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
