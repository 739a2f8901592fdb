"""Client of an agent whose turns wait, with a clock that the test moves."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from aion_core.delegation.looks import have_answers
from aion_core.delegation.remotes import Remotes
from aion_core.engine.call import CallContext
from aion_core.engine.queues import WakeUp
from aion_core.engine.records import AwaitedCall
from aion_core.protocol.interrupts import questions_of
from aion_core.protocol.types import Message, Part, Role, SendMessageRequest, Task
from aion_core.table.keys import ContextKey, TaskKey
from tests.support.clock import ManualClock, settle
from tests.support.requests import request
from tests.support.service import ServiceParts, parts, send_task
from tests.support.stores import MemoryTaskStore

SUSPENDING = ("aion_core.delegation.author_calls", "aion_core.agents.adk.remote_agents.run")
"""Modules that suspend a turn whose remote agent takes long."""


def suspend_after(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspend turns that have waited this long for a remote agent."""
    for module in SUSPENDING:
        monkeypatch.setattr(f"{module}.SUSPEND_SECONDS", seconds)


class Conversation:
    """One client of a graph, and the graph's notes of what it did and when, in seconds."""

    def __init__(self, build: Callable[["Conversation"], Any], *, lease_seconds: float = 0.0, **options: Any) -> None:
        """With `lease_seconds`, leases last longer than a test that moves the clock while a turn runs."""
        self.clock = ManualClock(at=datetime(2030, 1, 1, tzinfo=UTC))
        self.start, self.notes = self.clock.now(), list[tuple[str, float]]()
        store = MemoryTaskStore(self.clock, lease_seconds=lease_seconds) if lease_seconds else None
        if lease_seconds:
            options["lease_seconds"] = lease_seconds
        self.made: ServiceParts = parts(build(self), store, self.clock, **options)
        self.call, self._sent, self._busy = CallContext("owner", "test"), 0, 0
        self.woken: list[WakeUp] = []
        """Messages that have invoked a worker, in order."""
        self.made.work_queue.handled_by(self._handle)
        self.made.worker._looks = partial(
            have_answers, Remotes().client, self.made.store.remote_calls, own_look=self._own_look
        )

    async def _own_look(self, context: ContextKey, task: TaskKey, call: AwaitedCall) -> Task:
        calls = {each.key: each for each in await self.made.store.remote_calls.of_task(task)}
        agent: Any = self.made.agent
        found: Task = await agent.look_at_remote(context, task, calls[call.key])
        return found

    async def _handle(self, wake_up: WakeUp) -> None:
        self.woken.append(wake_up)
        self._busy += 1
        try:
            await self.made.worker.handle(wake_up)
        finally:
            self._busy -= 1

    def note(self, what: str) -> None:
        self.notes.append((what, (self.clock.now() - self.start).total_seconds()))

    async def send(self, text: str = "hi", task_id: str = "", **configuration: Any) -> Task:
        """Send a message, and return the task when nothing runs any more."""
        self._sent += 1
        configuration = configuration or {"return_immediately": True}
        message = request(text, message_id=f"m-{self._sent}", task_id=task_id, **configuration)
        task = await send_task(self.made.service, self.call, message)
        return await self.rests(task.id)

    async def answers(self, task: Task, text: str) -> Task:
        """Answer the first question of a task."""
        self._sent += 1
        part = Part(text=text)
        if questions := questions_of(task.status.message):
            part.metadata.update({"interruptId": questions[0].id})
        answer = Message(message_id=f"m-{self._sent}", task_id=task.id, role=Role.ROLE_USER, parts=[part])
        configuration: Any = {"return_immediately": True}
        await send_task(self.made.service, self.call, SendMessageRequest(message=answer, configuration=configuration))
        return await self.rests(task.id)

    async def rests(self, task_id: str) -> Task:
        """Return the task when no worker runs."""
        await self.idle()
        return await self.made.service.get(self.call, task_id)

    async def idle(self) -> None:
        """Wait until no worker runs: each waits for a message."""
        await self.made.work_queue.quiet()
        async with asyncio.timeout(60):
            idle = 0
            while idle < 3:
                await settle()
                idle = 0 if self._busy else idle + 1
                # Threads and sockets need real time.
                await asyncio.sleep(0.002 if self._busy else 0)

    async def passes(self, task: Task, seconds: float, *, step: float = 600.0) -> Task:
        """Let the time pass, in steps of so many seconds."""
        until = self.clock.now() + timedelta(seconds=seconds)
        while (left := (until - self.clock.now()).total_seconds()) > 0:
            self.clock.move(min(left, step))
            await self.idle()
        return await self.rests(task.id)


def text_of(task: Task) -> str:
    return "".join(part.text for part in task.status.message.parts)
