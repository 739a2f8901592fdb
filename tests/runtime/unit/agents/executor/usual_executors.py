"""Executors as people write them, with the expected answers. `docs/agents.md` lists these executors."""

from collections.abc import Callable
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

from tests.runtime.unit.agents.usual_agents import Cases, UsualTurn

CASES = Cases()
case = CASES.add


class FunctionExecutor(AgentExecutor):
    """Executor that runs a function with a TaskUpdater."""

    def __init__(self, function: Callable[[RequestContext, EventQueue, TaskUpdater], Any]) -> None:
        self._function = function

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await self._function(context, event_queue, updater)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


def said(updater: TaskUpdater, text: str) -> Any:
    return updater.new_agent_message([Part(text=text)])


@case("Executor that only sends a Message", UsualTurn(state="MESSAGE", answer="Hello."))
def bare_message() -> Any:
    async def run(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await queue.enqueue_event(said(updater, "Hello."))

    return FunctionExecutor(run)


@case(
    "Executor that sends task updates", UsualTurn(answer="Done.", before=("Working.",), artifacts={"report": "one two"})
)
def bare_task() -> Any:
    async def run(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.start_work(said(updater, "Working."))
        for number, text in enumerate(("one ", "two")):
            await updater.add_artifact(
                [Part(text=text)], artifact_id="r", name="report", append=number > 0, last_chunk=number > 0
            )
        await updater.complete(said(updater, "Done."))

    return FunctionExecutor(run)


@case(
    "Executor that asks",
    UsualTurn(state="INPUT_REQUIRED", answer="Which day?"),
    UsualTurn(sent=("Tuesday",), answer="Tuesday it is."),
)
def bare_question() -> Any:
    async def run(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        if context.current_task is None:
            await updater.requires_input(said(updater, "Which day?"))
        else:
            await updater.complete(said(updater, f"{context.get_user_input()} it is."))

    return FunctionExecutor(run)


@case("Executor that rejects", UsualTurn(state="REJECTED", answer="Not my work."))
def bare_rejection() -> Any:
    async def run(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        await updater.reject(said(updater, "Not my work."))

    return FunctionExecutor(run)


@case("Executor that raises", UsualTurn(state="FAILED", answer="ValueError: the agent could not finish this turn."))
def bare_error() -> Any:
    async def run(context: RequestContext, queue: EventQueue, updater: TaskUpdater) -> None:
        raise ValueError("internal")

    return FunctionExecutor(run)
