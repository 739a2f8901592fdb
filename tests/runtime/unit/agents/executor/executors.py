"""Executors written like those of SDK users, served in this process."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from aion_core.agents.executor.agent import ExecutorAgent
from aion_core.clock import Clock, SystemClock
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.call import CallContext
from aion_core.protocol.types import Message, Part, Task, TaskState
from aion_core.table.keys import TaskKey
from tests.support.requests import request
from tests.support.service import ServiceParts, parts
from tests.support.stores import MemoryTaskStore

Execute = Callable[[RequestContext, EventQueue, TaskUpdater], Awaitable[None]]


class ScriptedExecutor(AgentExecutor):
    """Executor that runs the functions of a test, with a TaskUpdater of the turn."""

    def __init__(self, *functions: Execute) -> None:
        """Use one function per message, in order; the last function serves all further messages."""
        self._functions = list(functions)
        self.contexts: list[RequestContext] = []
        self.canceled: list[RequestContext] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.contexts.append(context)
        function = self._functions.pop(0) if len(self._functions) > 1 else self._functions[0]
        await function(context, event_queue, updater_of(context, event_queue))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled.append(context)
        await updater_of(context, event_queue).cancel()


def updater_of(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    assert context.task_id is not None
    assert context.context_id is not None
    return TaskUpdater(event_queue, context.task_id, context.context_id)


def text(content: str) -> list[Part]:
    return [Part(text=content)]


@dataclass
class ExecutorApp:
    """Executor with its service and its store."""

    parts: ServiceParts
    executor: AgentExecutor
    store: MemoryTaskStore

    async def send(self, content: str = "hi", **options: Any) -> Task:
        task = await self.parts.service.send(CallContext("owner", "test"), request(content, **options))
        assert isinstance(task, Task)
        return task

    async def events(self, task_id: str) -> list[Any]:
        """Return the events in the task's log."""
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
) -> ExecutorApp:
    """Return a service for the executor, or for a ScriptedExecutor with the function."""
    made = executor if isinstance(executor, AgentExecutor) else ScriptedExecutor(executor)
    clock = clock or SystemClock()
    store = MemoryTaskStore(clock)
    agent = ExecutorAgent(made, store, name="Test", resume=resume, configuration=configuration)
    return ExecutorApp(parts(agent, store, clock, **options), made, store)


def states(events: list[Any]) -> list[str]:
    """Return the lower-case states of the events with a status."""
    return [
        TaskState.Name(event.status.state).removeprefix("TASK_STATE_").lower()
        for event in events
        if hasattr(event, "status")
    ]


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.parts)


async def forever() -> None:
    await asyncio.Event().wait()
