"""An executor has no steps: a turn that was cut, or lost with its process, fails, or is run again from its message."""

import asyncio
from datetime import timedelta

from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.ports import AfterCrash, ContextKey, WakeUp
from aion_core.protocol.types import Role, Task, TaskState
from aion_core.tasks.call import CallContext, Deadline
from tests.support.clock import ManualClock
from tests.support.executors import Doing, Execute, Served, said, served, text
from tests.support.requests import request

COMPLETED, FAILED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED
CONTEXT = ContextKey("owner", "test", "c")


class Dying:
    """What a first try does before its process is lost, and what the next ones do."""

    def __init__(self, first: Execute) -> None:
        self._first, self.reached = first, asyncio.Event()

    async def __call__(self, context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await self._first(context, queue, updater)
        self.reached.set()
        await asyncio.Event().wait()


async def lost_and_found(clock: ManualClock, made: Served, *dying: Dying) -> Task:
    """Send a message, lose the process whenever a try has come so far, and let the turn be found by its lease."""
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.parts.service.send(call, request(return_immediately=False)))
    for number, each in enumerate(dying):
        if number:
            sending = asyncio.create_task(made.parts.worker.handle(WakeUp(CONTEXT)))
        await asyncio.wait_for(each.reached.wait(), 5)
        for work in [*call.background, sending]:
            work.cancel()
        await asyncio.sleep(0.01)
        clock.move(31)
    await made.parts.worker.handle(WakeUp(CONTEXT))
    (key,) = made.store.task_keys()
    return await made.parts.service.get(call, key.task_id)


async def begins(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await updater.start_work(updater.new_agent_message(text("Looking it up.")))
    await updater.add_artifact(text("half of "), "report")


async def finishes(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
    await begins(context, queue, updater)
    await updater.add_artifact(text("the report"), "report", append=True, last_chunk=True)
    await updater.complete(updater.new_agent_message(text("There it is.")))


async def test_a_turn_whose_process_is_lost_fails_and_is_not_run_again() -> None:
    """`resume: fail`: nothing is done twice."""
    clock = ManualClock()
    dying = Dying(begins)
    doing = Doing(dying, finishes)
    task = await lost_and_found(clock, served(doing, clock=clock), dying)
    assert task.status.state == FAILED
    assert "not resumable" in said(task.status.message)
    assert "not resumable" in task.metadata["error"]
    assert len(doing.contexts) == 1
    assert said(task.history[-1]) == "Looking it up.", "what was recorded stays"
    assert doing.canceled == []


async def test_by_restart_it_is_run_again_from_its_message_and_says_nothing_twice() -> None:
    clock = ManualClock()
    dying = Dying(begins)
    doing = Doing(dying, finishes)
    task = await lost_and_found(clock, served(doing, clock=clock, resume=AfterCrash.RESTART), dying)
    assert task.status.state == COMPLETED
    assert len(doing.contexts) == 2
    assert doing.contexts[1].current_task is None, "it is asked as it was the first time"
    assert [said(message) for message in task.history if message.role == Role.ROLE_AGENT] == ["Looking it up."]
    (report,) = task.artifacts
    assert "".join(part.text for part in report.parts) == "half of the report", "the repeat replaces what was lost"


async def test_what_it_says_differently_the_second_time_is_said_too() -> None:
    clock = ManualClock()

    async def other_words(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("Looking it up.")))
        await updater.start_work(updater.new_agent_message(text("Looking it up.")))
        await updater.start_work(updater.new_agent_message(text("It is long.")))
        await updater.add_artifact(text("another"), "report")

    dying = Dying(begins)
    made = served(Doing(dying, other_words), clock=clock, resume=AfterCrash.RESTART)
    task = await lost_and_found(clock, made, dying)
    words = [said(message) for message in [*task.history, task.status.message] if message.role == Role.ROLE_AGENT]
    assert words == ["Looking it up.", "Looking it up.", "It is long."]
    assert [said_part.text for said_part in task.artifacts[0].parts] == ["another"]


async def test_an_artifact_is_whole_again_and_holds_nothing_of_what_was_lost() -> None:
    """Also where its first chunk is the same, and where none of them opens it."""
    clock = ManualClock()

    def adding(*chunks: str) -> Execute:
        async def adds(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
            for place, chunk in enumerate(chunks):
                await updater.add_artifact(text(chunk), "opened", append=place > 0)
                await updater.add_artifact(text(chunk), "appended", append=True)

        return adds

    dying = Dying(adding("same ", "lost"))
    made = served(Doing(dying, adding("same ", "found")), clock=clock, resume=AfterCrash.RESTART)
    task = await lost_and_found(clock, made, dying)
    for artifact in task.artifacts:
        assert "".join(part.text for part in artifact.parts) == "same found", artifact.artifact_id


async def test_an_answer_without_an_end_keeps_the_id_under_which_it_was_said() -> None:
    clock = ManualClock()

    async def only_says(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message(text("The answer.")))

    dying = Dying(only_says)
    made = served(Doing(dying, only_says), clock=clock, resume=AfterCrash.RESTART)
    task = await lost_and_found(clock, made, dying)
    assert said(task.status.message) == "The answer."
    assert [message.role for message in task.history] == [Role.ROLE_USER]


async def test_a_turn_that_never_comes_to_its_end_is_not_run_for_ever() -> None:
    clock = ManualClock()
    dying = [Dying(begins) for _ in range(3)]
    doing = Doing(*dying, finishes)
    made = served(doing, clock=clock, resume=AfterCrash.RESTART, max_tries=10)
    task = await lost_and_found(clock, made, *dying)
    assert task.status.state == FAILED
    assert "3 times" in said(task.status.message)
    assert len(doing.contexts) == 3


async def test_a_chunk_that_continues_an_earlier_turns_artifact_is_not_added_twice() -> None:
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

    dying = Dying(adds)
    doing = Doing(asks, dying, adds_and_ends)
    made = served(doing, clock=clock, resume=AfterCrash.RESTART)
    await made.send(message_id="m-0")
    task = await lost_and_found(clock, made, dying)
    assert task.status.state == COMPLETED
    assert "".join(part.text for part in task.artifacts[0].parts) == "one two three"
    current = doing.contexts[2].current_task
    assert current is not None
    assert current.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, "the second try is asked as the first was"


async def test_a_turn_cut_at_its_deadline_is_lost_too_and_one_that_only_waited_is_not() -> None:
    clock = ManualClock()
    dying = Dying(begins)
    doing = Doing(dying, finishes)
    made = served(doing, clock=clock)
    call = CallContext("owner", "test", deadline=Deadline(clock.now() + timedelta(minutes=15)))
    sending = asyncio.create_task(made.parts.service.send(call, request()))
    await dying.reached.wait()
    waiting = await made.parts.service.send(
        CallContext("owner", "test"), request(message_id="m-2", return_immediately=True)
    )
    while not sending.done() or call.background:
        clock.move(5)
        await asyncio.sleep(0.001)
    await asyncio.wait_for(made.parts.work_queue.quiet(), 5)
    cut = await made.parts.service.get(call, (await sending).id)
    assert (cut.status.state, "not resumable" in said(cut.status.message)) == (FAILED, True)
    waited = await made.parts.service.get(call, waiting.id)
    assert waited.status.state == COMPLETED, "a first try of a turn that waited is a first try"
    assert len(doing.contexts) == 2
