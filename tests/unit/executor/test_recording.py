"""An executor never runs ahead of what is recorded, whatever it enqueues from, and leaves nothing behind."""

import asyncio
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.clock import SystemClock
from aion_core.errors import StoreUnavailable
from aion_core.ports import Head, Lease, TurnFinished
from aion_core.protocol.types import Event, Task, TaskState
from aion_core.tasks.call import CallContext
from tests.support.executors import Doing, said, served, text
from tests.support.requests import request
from tests.support.service import parts
from tests.support.stores import MemoryTaskStore


class Slow(MemoryTaskStore):
    """Takes its time to record, as one over a network does."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.done = 0

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        await asyncio.sleep(0.02)
        head = await super().append(lease, head, event, key=key)
        self.done += 1
        return head

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, run_next: bool = False, snapshot: Task | None = None
    ) -> TurnFinished:
        await asyncio.sleep(0.02)
        ended = await super().finish(lease, head, event, run_next=run_next, snapshot=snapshot)
        self.done += 1
        return ended


async def answered(doing: Doing, store: MemoryTaskStore) -> Task:
    made = parts(ExecutorAgent(doing, store), store)
    return await made.service.send(CallContext("owner", "test"), request())


async def test_an_event_is_enqueued_when_it_is_recorded_the_last_one_too() -> None:
    """Record, then speak; and whoever has spoken goes on after that."""
    store = Slow()
    seen: list[int] = []

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("one")))
        seen.append(store.done)
        await updater.add_artifact(text("two"), "a")
        seen.append(store.done)
        await updater.complete()
        seen.append(store.done)

    await answered(Doing(execute), store)
    assert seen == [1, 2, 3]


class Full(MemoryTaskStore):
    """Records so much and no more."""

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        raise StoreUnavailable("full")


async def test_an_event_that_cannot_be_recorded_stops_its_executor_where_it_stands() -> None:
    went_on: list[str] = []
    stopped = asyncio.Event()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        try:
            await updater.add_artifact(text("charge the card next"), "a")
            went_on.append("charged")
        except asyncio.CancelledError:
            stopped.set()
            raise

    store = Full(SystemClock())
    made = parts(ExecutorAgent(Doing(execute), store), store)
    sending = asyncio.create_task(made.service.send(CallContext("owner", "test"), request()))
    await asyncio.wait_for(stopped.wait(), 5)
    sending.cancel()
    assert went_on == []


async def test_what_threads_and_tasks_enqueue_is_recorded_in_their_order() -> None:
    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        loop = asyncio.get_running_loop()

        def in_a_thread() -> None:
            for n in range(20):
                asyncio.run_coroutine_threadsafe(add(f"t{n}"), loop).result(5)

        def in_a_loop_of_its_own() -> None:
            async def all_of_them() -> None:
                for n in range(20):
                    await add(f"l{n}")

            asyncio.run(all_of_them())

        async def add(said: str) -> None:
            await updater.add_artifact(text(said), said)

        async def in_a_task() -> None:
            for n in range(20):
                await add(f"a{n}")

        await asyncio.gather(asyncio.to_thread(in_a_thread), asyncio.to_thread(in_a_loop_of_its_own), in_a_task())
        # Nobody waits for these one by one; their order is the order of enqueuing.
        await asyncio.gather(*(add(f"g{n}") for n in range(20)))
        await updater.complete()

    task = await served(execute).send()
    ids = [artifact.artifact_id for artifact in task.artifacts]
    for producer in "tlag":
        assert [id_ for id_ in ids if id_[0] == producer] == [f"{producer}{n}" for n in range(20)]


async def test_a_task_that_outlives_its_execution_says_nothing_and_waits_for_nothing() -> None:
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

    made = served(Doing(execute, next_time))
    task = await made.send()
    second = await asyncio.wait_for(made.send(message_id="m-2"), 5)
    assert [artifact.artifact_id for artifact in task.artifacts] == ["a"]
    assert [artifact.artifact_id for artifact in second.artifacts] == ["a"], "nor in the next turn"


async def test_two_turns_of_one_executor_run_side_by_side_each_in_its_task() -> None:
    both = asyncio.Barrier(2)

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await both.wait()
        await updater.complete(updater.new_agent_message(text(context.get_user_input())))

    made = served(execute)
    one, two = await asyncio.gather(
        made.send("one", context_id="c-1"), made.send("two", message_id="m-2", context_id="c-2")
    )
    assert (said(one.status.message), said(two.status.message)) == ("one", "two")


# ── Canceled ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def cancel_while(doing: Doing, begun: asyncio.Event) -> tuple[Task, Any]:
    made = served(doing, lease_seconds=3)
    sending = asyncio.create_task(made.send())
    await begun.wait()
    (key,) = made.store.task_keys()
    canceled = await made.parts.service.cancel(CallContext("owner", "test"), key.task_id)
    await asyncio.wait_for(sending, 10)
    return canceled, made


@pytest.mark.parametrize("speaking", [False, True], ids=["silent", "speaking"])
async def test_who_is_canceled_is_told_once_while_it_still_runs_and_then_stopped(speaking: bool) -> None:
    """In the SDK's order: `cancel()` finds what `execute()` holds; what it enqueues is canceled already."""
    begun, order = asyncio.Event(), list[str]()

    class Executor(Doing):
        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            order.append("cancel")
            await super().cancel(context, event_queue)
            order.append("canceled")

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        begun.set()
        try:
            while True:
                if speaking:
                    await updater.add_artifact(text("more"), "a", append=True)
                await asyncio.sleep(0.01)
        finally:
            order.append("stopped")

    doing = Executor(execute)
    task, made = await cancel_while(doing, begun)
    assert task.status.state == TaskState.TASK_STATE_CANCELED
    assert order == ["cancel", "canceled", "stopped"]
    assert [context.task_id for context in doing.canceled] == [task.id]
    assert await made.parts.service.get(CallContext("owner", "test"), task.id) == task, "nothing follows"


async def test_a_cancel_that_raises_or_hangs_holds_nobody_up() -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    class Executor(Doing):
        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise NotImplementedError

    class Hanging(Doing):
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
        await asyncio.wait_for(stopped.wait(), 3)


async def test_an_executor_that_has_lost_its_turn_is_not_told_that_it_was_canceled() -> None:
    """Its task goes on elsewhere: a cancel() might stop what runs there."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def execute(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    doing = Doing(execute)
    made = served(doing, lease_seconds=3)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.parts.service.send(call, request()))
    await begun.wait()
    call.deadline.now.set()
    (work,) = call.background
    work.cancel()
    await asyncio.wait_for(stopped.wait(), 5)
    sending.cancel()
    assert doing.canceled == []
