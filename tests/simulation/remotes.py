"""Remote agent of the simulated agents, and its client in one process. The remote agent deduplicates messages."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from a2a.client.errors import A2AClientError
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from aion_core.errors import StoreUnavailable
from aion_core.protocol.types import (
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)

if TYPE_CHECKING:
    from tests.simulation.processes import Process
    from tests.simulation.world import SimWorld

REMOTE = "https://remote.example"

REPORTS = ((0.1,), (0.1,), (0.0,), (), (0.1, 0.1), (0.1, 0.1, 30.0), (-10.0, 0.1), (-0.5,), (60.0,))
"""Seconds after a task's end at which the remote agent reports it: in time, never, doubled, early, or late."""


def answer_for(message: Message) -> str:
    """Return the remote agent's answer to a message, whose last part names the call."""
    return f"word {message.parts[-1].text}"


@dataclass
class RemoteTask:
    """Task of the remote agent, begun by one message."""

    task_id: str
    message: Message
    began: float
    ends: float
    canceled: float | None = None
    """Time of its cancellation."""
    sends: int = 1
    """Number of times that its message has arrived."""
    token: str = ""
    """Token of the callback that the message asks for; "" for none."""


class RemoteAgent:
    """The remote agent of a world: each message begins one task, which works for as many seconds as the text says."""

    def __init__(self, world: "SimWorld") -> None:
        self._world = world
        self.tasks: dict[str, RemoteTask] = {}
        """Tasks by the id of their message."""
        self.down = 0.0, 0.0
        """Begin and end of a restart, in which requests may be heard and no answer comes. The end may never come."""
        self.heard_back: list[tuple[float, RemoteTask]] = []
        """Times at which the caller has used the callback of a task, which may come before the task's end."""

    def is_down(self) -> bool:
        """Return True while the remote agent restarts."""
        return self.down[0] <= self._world.loop.now < self.down[1]

    @property
    def is_gone(self) -> bool:
        """True if the agent restarts and never comes back."""
        return self.down[1] == math.inf

    def receive(self, message: Message, token: str = "") -> str:
        """Return the id of the message's task, whose end is reported with the token."""
        known = self.tasks.get(message.message_id)
        if known is not None:
            known.sends += 1
            return known.task_id
        seconds = float(message.parts[0].text)
        now = self._world.loop.now
        begun = RemoteTask(f"remote-{len(self.tasks)}", message, now, now + seconds, token=token)
        self.tasks[message.message_id] = begun
        if token:
            for after in self._world.callbacks.choice(REPORTS):
                self._world.outside(max(0.0, seconds + after), self._report, begun)
            if self._world.callbacks.random() < 0.3:
                self._world.outside(seconds / 2, self._world.call_back, "forged", None)
        return begun.task_id

    def _report(self, task: RemoteTask) -> None:
        """Call the caller back, unless this agent is down."""
        if not self.is_down():
            self._world.call_back(task.token, task)

    def found(self, task_id: str) -> RemoteTask:
        """Return the task with this id. Raises TaskNotFoundError."""
        for task in self.tasks.values():
            if task.task_id == task_id:
                return task
        raise TaskNotFoundError

    def is_over(self, task: RemoteTask) -> bool:
        """Return True if the task has ended or is canceled."""
        return task.canceled is not None or self._world.loop.now >= task.ends

    def read(self, task_id: str) -> Task:
        """Return the task as GetTask does."""
        found = self.found(task_id)
        task = Task(id=task_id, context_id=found.message.context_id, history=[found.message])
        task.status.state = TaskState.TASK_STATE_WORKING
        if found.canceled is not None:
            task.status.state = TaskState.TASK_STATE_CANCELED
        elif self.is_over(found):
            answer = Message(
                message_id=f"{task_id}.answer", role=Role.ROLE_AGENT, parts=[Part(text=answer_for(found.message))]
            )
            task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=answer))
        return task

    def cancel(self, task_id: str) -> Task:
        """Cancel the task. Raises TaskNotCancelableError."""
        found = self.found(task_id)
        if self.is_over(found):
            raise TaskNotCancelableError
        found.canceled = self._world.loop.now
        return self.read(task_id)


class SimRemoteClient:
    """Client of the remote agent in one process. Each request is a side effect, and may be lost on the way."""

    def __init__(self, process: "Process") -> None:
        self._process, self._remote = process, process.world.remote

    async def send_message(self, request: SendMessageRequest, *, context: Any = None) -> AsyncIterator[StreamResponse]:
        """Send the message, then follow the task."""
        message = Message()
        message.CopyFrom(request.message)
        token = request.configuration.task_push_notification_config.token
        task_id = await self._request("remote.send", lambda: self._remote.receive(message, token))
        yield StreamResponse(task=self._remote.read(task_id))
        if not request.configuration.return_immediately:
            async for response in self._follow(task_id):
                yield response

    async def subscribe(self, request: SubscribeToTaskRequest, *, context: Any = None) -> AsyncIterator[StreamResponse]:
        """Yield the task, then follow it. Raises UnsupportedOperationError for a task that has ended."""
        found = await self._request("remote.read", lambda: self._remote.found(request.id))
        if self._remote.is_over(found):
            raise UnsupportedOperationError
        yield StreamResponse(task=self._remote.read(request.id))
        async for response in self._follow(request.id):
            yield response

    async def get_task(self, request: GetTaskRequest, *, context: Any = None) -> Task:
        """Return the task."""
        task: Task = await self._request("remote.read", lambda: self._remote.read(request.id))
        return task

    async def list_tasks(self, request: ListTasksRequest, *, context: Any = None) -> ListTasksResponse:
        """Return the tasks of the request's context."""
        found = [
            self._remote.read(task.task_id)
            for task in await self._request("remote.read", lambda: list(self._remote.tasks.values()))
            if task.message.context_id == request.context_id
        ]
        return ListTasksResponse(tasks=found)

    async def cancel_task(self, request: CancelTaskRequest, *, context: Any = None) -> Task:
        """Cancel the task."""
        task: Task = await self._request("remote.cancel", lambda: self._remote.cancel(request.id))
        return task

    async def card(self) -> AgentCard:
        """Return the card, which promises push notifications."""
        return AgentCard(capabilities=AgentCapabilities(push_notifications=True))

    async def _follow(self, task_id: str) -> AsyncIterator[StreamResponse]:
        """Yield the task's end. The stream may break off before."""
        found = self._remote.found(task_id)
        while not self._remote.is_over(found):
            await asyncio.sleep(min(5.0, max(0.01, found.ends - self._process.world.loop.now)))
            # Receive a heartbeat: with a fault, the stream breaks off.
            await self._request("remote.read", lambda: None)
        yield StreamResponse(task=self._remote.read(task_id))

    async def _request(self, kind: str, act: Callable[[], Any]) -> Any:
        try:
            done = await self._process.effect(kind, act)
            if self._remote.is_down():
                raise StoreUnavailable("The remote agent restarts.")
            return done
        except StoreUnavailable as error:
            raise A2AClientError("Network communication error") from httpx.ConnectError(str(error))
