"""Executors as the SDK's users write them, served by the real service in this process."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.clock import SystemClock
from aion_core.ports import AfterCrash, Clock, TaskKey
from aion_core.protocol.types import Message, Part, Task, TaskState
from aion_core.tasks.call import CallContext
from tests.support.requests import request
from tests.support.service import Parts, parts
from tests.support.stores import MemoryTaskStore

Execute = Callable[[RequestContext, EventQueue, TaskUpdater], Awaitable[None]]


class Doing(AgentExecutor):
    """Does what a test has it do, with a TaskUpdater of the turn at hand."""

    def __init__(self, *does: Execute) -> None:
        """The first message gets the first, the second the second, and so on; the last gets all that follow."""
        self._does = list(does)
        self.contexts: list[RequestContext] = []
        self.canceled: list[RequestContext] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.contexts.append(context)
        do = self._does.pop(0) if len(self._does) > 1 else self._does[0]
        await do(context, event_queue, updater_of(context, event_queue))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled.append(context)
        await updater_of(context, event_queue).cancel()


def updater_of(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    assert context.task_id is not None
    assert context.context_id is not None
    return TaskUpdater(event_queue, context.task_id, context.context_id)


def text(said: str) -> list[Part]:
    return [Part(text=said)]


@dataclass
class Served:
    """An executor that is served, and what one can ask of it."""

    parts: Parts
    executor: AgentExecutor
    store: MemoryTaskStore

    async def send(self, said: str = "hi", **options: Any) -> Task:
        return await self.parts.service.send(CallContext("owner", "test"), request(said, **options))

    async def heard(self, task_id: str) -> list[Any]:
        """The task's log, event by event."""
        log = await self.store.log(TaskKey("owner", task_id))
        assert log is not None
        return [entry.event for entry in log.events]


def served(
    executor: AgentExecutor | Execute,
    *,
    resume: AfterCrash = AfterCrash.FAIL,
    clock: Clock | None = None,
    configuration: dict[str, Any] | None = None,
    **options: Any,
) -> Served:
    """The executor, or one that does this for every message."""
    made = executor if isinstance(executor, AgentExecutor) else Doing(executor)
    clock = clock or SystemClock()
    store = MemoryTaskStore(clock)
    agent = ExecutorAgent(made, store, name="Test", resume=resume, configuration=configuration)
    return Served(parts(agent, store, clock, **options), made, store)


def states(events: list[Any]) -> list[str]:
    """The states of the events that have one, as people write them."""
    return [
        TaskState.Name(event.status.state).removeprefix("TASK_STATE_").lower()
        for event in events
        if hasattr(event, "status")
    ]


def said(message: Message) -> str:
    return "".join(part.text for part in message.parts)


async def forever() -> None:
    await asyncio.Event().wait()
