"""Interrupted turns of executors: an executor has no steps, so the turn fails or restarts from its message."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.agents.restarts import NO_ANSWER_AFTER_RESTART
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.call import CallContext
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.queues import WakeUp
from aion_core.protocol.types import Role, Task, TaskState
from aion_core.table.keys import ContextKey
from tests.runtime.unit.agents.executor.executors import Execute, ExecutorApp, ScriptedExecutor, served, text, text_of
from tests.support.clock import ManualClock
from tests.support.histories import before_status, messages_of
from tests.support.requests import request

COMPLETED, FAILED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED
CONTEXT = ContextKey("owner", "test", "c")


class CrashAfter:
    """First try of an executor that runs a function and then waits until the test ends its process."""

    def __init__(self, first: Execute) -> None:
        self._first, self.reached = first, asyncio.Event()

    async def __call__(self, context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await self._first(context, queue, updater)
        self.reached.set()
        await asyncio.Event().wait()


async def run_with_crashes(clock: ManualClock, made: ExecutorApp, *crashing: CrashAfter) -> Task:
    """Return the task of one message; the process is lost after each `CrashAfter`, and its lease expires."""
    call = CallContext("owner", "test")
    sending: asyncio.Task[Any] = asyncio.create_task(made.parts.service.send(call, request(return_immediately=False)))
    for number, each in enumerate(crashing):
        if number:
            sending = asyncio.create_task(made.parts.worker.handle(WakeUp(CONTEXT)))
        await asyncio.wait_for(each.reached.wait(), 60)
        for work in [*call.background, sending]:
            work.cancel()
        await asyncio.sleep(0.01)
        clock.move(31)
    await made.parts.worker.handle(WakeUp(CONTEXT))
    (key,) = made.store.task_keys()
    return await made.parts.service.get(call, key.task_id)


async def start_report(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await updater.start_work(updater.new_agent_message(text("Looking it up.")))
    await updater.add_artifact(text("half of "), "report")


async def finish_report(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await start_report(context, queue, updater)
    await updater.add_artifact(text("the report"), "report", append=True, last_chunk=True)
    await updater.complete(updater.new_agent_message(text("There it is.")))


async def test_executor_turn_of_dead_worker_fails_by_default() -> None:
    """The default `resume: fail` fails the task instead of running the executor twice."""
    clock = ManualClock()
    crashing = CrashAfter(start_report)
    executor = ScriptedExecutor(crashing, finish_report)
    task = await run_with_crashes(clock, served(executor, clock=clock), crashing)
    assert task.status.state == FAILED
    assert "not resumable" in text_of(task.status.message)
    assert "not resumable" in str(task.metadata["error"])
    assert len(executor.contexts) == 1
    assert text_of(before_status(task)[-1]) == "Looking it up.", "recorded events stay"
    assert executor.canceled == []


async def test_restarted_executor_turn_records_each_event_once() -> None:
    clock = ManualClock()
    crashing = CrashAfter(start_report)
    executor = ScriptedExecutor(crashing, finish_report)
    task = await run_with_crashes(clock, served(executor, clock=clock, resume=AfterCrash.RESTART), crashing)
    assert task.status.state == COMPLETED
    assert len(executor.contexts) == 2
    assert executor.contexts[1].current_task is None, "the second try gets the same request"
    assert [text_of(message) for message in before_status(task)] == ["hi", "Looking it up."]
    (report,) = task.artifacts
    assert "".join(part.text for part in report.parts) == "half of the report", "the repeat replaces the lost chunks"


async def test_restarted_executor_adds_only_messages_not_yet_recorded() -> None:
    clock = ManualClock()

    async def other_words(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("Looking it up.")))
        await updater.start_work(updater.new_agent_message(text("Looking it up.")))
        await updater.start_work(updater.new_agent_message(text("It is long.")))
        await updater.add_artifact(text("another"), "report")

    crashing = CrashAfter(start_report)
    made = served(ScriptedExecutor(crashing, other_words), clock=clock, resume=AfterCrash.RESTART)
    task = await run_with_crashes(clock, made, crashing)
    words = [text_of(message) for message in messages_of(task) if message.role == Role.ROLE_AGENT]
    assert words == ["Looking it up.", "Looking it up.", "It is long."]
    assert [part.text for part in task.artifacts[0].parts] == ["another"]


async def test_restarted_executor_replaces_artifacts_of_first_try() -> None:
    """The restarted turn replaces artifacts of the first try, also those with equal or without opening chunks."""
    clock = ManualClock()

    def adding(*chunks: str) -> Execute:
        async def adds(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
            for place, chunk in enumerate(chunks):
                await updater.add_artifact(text(chunk), "opened", append=place > 0)
                await updater.add_artifact(text(chunk), "appended", append=True)

        return adds

    crashing = CrashAfter(adding("same ", "lost"))
    made = served(ScriptedExecutor(crashing, adding("same ", "found")), clock=clock, resume=AfterCrash.RESTART)
    task = await run_with_crashes(clock, made, crashing)
    for artifact in task.artifacts:
        assert "".join(part.text for part in artifact.parts) == "same found", artifact.artifact_id


async def test_answer_repeated_by_restarted_executor_is_recorded_once() -> None:
    clock = ManualClock()

    async def only_says(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("The answer.")))

    crashing = CrashAfter(only_says)
    made = served(ScriptedExecutor(crashing, only_says), clock=clock, resume=AfterCrash.RESTART)
    task = await run_with_crashes(clock, made, crashing)
    assert text_of(task.status.message) == "The answer."
    assert [message.role for message in messages_of(task)] == [Role.ROLE_USER, Role.ROLE_AGENT]


async def test_number_of_executor_restarts_is_limited() -> None:
    clock = ManualClock()
    crashing = [CrashAfter(start_report) for _ in range(3)]
    executor = ScriptedExecutor(*crashing, finish_report)
    made = served(executor, clock=clock, resume=AfterCrash.RESTART, max_tries=10)
    task = await run_with_crashes(clock, made, *crashing)
    assert task.status.state == FAILED
    assert "3 times" in text_of(task.status.message)
    assert len(executor.contexts) == 3


async def test_restarted_executor_appends_each_chunk_to_existing_artifact_once() -> None:
    clock = ManualClock()

    async def asks(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("one "), "list")
        await updater.requires_input(updater.new_agent_message(text("More?")))

    async def adds(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.add_artifact(text("two "), "list", append=True)

    async def adds_and_ends(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await adds(context, queue, updater)
        await updater.add_artifact(text("three"), "list", append=True)
        await updater.complete()

    crashing = CrashAfter(adds)
    executor = ScriptedExecutor(asks, crashing, adds_and_ends)
    made = served(executor, clock=clock, resume=AfterCrash.RESTART)
    await made.send(message_id="m-0")
    task = await run_with_crashes(clock, made, crashing)
    assert task.status.state == COMPLETED
    assert "".join(part.text for part in task.artifacts[0].parts) == "one two three"
    current = executor.contexts[2].current_task
    assert current is not None
    assert current.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, "the second try gets the same request"


async def only_completes(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await updater.complete()


async def sends_nothing(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    pass


@pytest.mark.parametrize("lost", [sends_nothing, start_report], ids=["nothing", "a message and an artifact"])
async def test_restarted_executor_without_output_fails(lost: Execute) -> None:
    """The lost attempt may have sent something: it does not answer the turn."""
    clock, crashing = ManualClock(), CrashAfter(lost)
    made = served(ScriptedExecutor(crashing, only_completes), clock=clock, resume=AfterCrash.RESTART)
    task = await run_with_crashes(clock, made, crashing)
    assert (task.status.state, text_of(task.status.message)) == (FAILED, NO_ANSWER_AFTER_RESTART)


async def test_executor_may_complete_first_run_without_output() -> None:
    task = await served(ScriptedExecutor(only_completes), resume=AfterCrash.RESTART).send()
    assert (task.status.state, text_of(task.status.message)) == (COMPLETED, "")


async def test_executor_stopped_by_deadline_does_not_run_again() -> None:
    """A turn stopped by a deadline fails; a turn that was only queued until then starts its first try."""
    clock = ManualClock()
    crashing = CrashAfter(start_report)
    executor = ScriptedExecutor(crashing, finish_report)
    made = served(executor, clock=clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + timedelta(minutes=15)))
    sending = asyncio.create_task(made.parts.service.send(call, request()))
    await crashing.reached.wait()
    waiting = await made.send(message_id="m-2", return_immediately=True)
    while not sending.done() or call.background:
        clock.move(5)
        await asyncio.sleep(0.001)
    await asyncio.wait_for(made.parts.work_queue.quiet(), 60)
    interrupted = await sending
    assert isinstance(interrupted, Task)
    cut = await made.parts.service.get(call, interrupted.id)
    assert (cut.status.state, "not resumable" in text_of(cut.status.message)) == (FAILED, True)
    waited = await made.parts.service.get(call, waiting.id)
    assert waited.status.state == COMPLETED, "waiting does not count as a try"
    assert len(executor.contexts) == 2
