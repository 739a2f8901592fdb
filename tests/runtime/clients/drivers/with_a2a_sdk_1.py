"""The official client of A2A 1.0, a2a-sdk 1, in a program that shows the artifacts and messages of a task."""

import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, Task, TaskState
from play import Screen, play


class Conversation:
    def __init__(self, url: str) -> None:
        self._url = url
        self._context: str | None = None
        self._asking: str | None = None

    async def send(self, text: str) -> str:
        return await self.send_to(self._asking, text)

    async def stream(self, text: str) -> str:
        return await self.stream_to(self._asking, text)

    async def send_to(self, task_id: str | None, text: str) -> str:
        async with self._client(streaming=False) as client:
            [response] = [response async for response in client.send_message(self._request(text, task_id))]
        if response.HasField("message"):
            return words(response.message.parts)
        self._remember(response.task.context_id, response.task.id, response.task.status.state)
        return whole(response.task)

    async def stream_to(self, task_id: str | None, text: str) -> str:
        screen = Screen()
        async with self._client(streaming=True) as client:
            async for response in client.send_message(self._request(text, task_id)):
                if response.HasField("artifact_update"):
                    update = response.artifact_update
                    screen.add(update.artifact.artifact_id, words(update.artifact.parts), append=update.append)
                elif response.HasField("status_update"):
                    update = response.status_update
                    self._remember(update.context_id, update.task_id, update.status.state)
                    screen.add(update.status.message.message_id, words(update.status.message.parts))
                elif response.HasField("message"):
                    screen.add(response.message.message_id, words(response.message.parts))
        return str(screen)

    async def get(self, task_id: str) -> str:
        async with self._client(streaming=False) as client:
            return whole(await client.get_task(GetTaskRequest(id=task_id)))

    @asynccontextmanager
    async def _client(self, *, streaming: bool) -> AsyncIterator[Client]:
        async with httpx.AsyncClient(timeout=90) as http:
            card = await A2ACardResolver(http, self._url).get_agent_card()
            yield ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)

    def _request(self, text: str, task_id: str | None) -> SendMessageRequest:
        ids = {"message_id": str(uuid.uuid4()), "context_id": self._context, "task_id": task_id}
        return SendMessageRequest(message=Message(role=Role.ROLE_USER, parts=[Part(text=text)], **ids))

    def _remember(self, context_id: str, task_id: str, state: TaskState) -> None:
        self._context = context_id
        self._asking = task_id if state == TaskState.TASK_STATE_INPUT_REQUIRED else None


def whole(task: Task) -> str:
    """Return the texts of the task's artifacts and of its status."""
    screen = Screen()
    for artifact in task.artifacts:
        screen.add(artifact.artifact_id, words(artifact.parts))
    screen.add(task.status.message.message_id, words(task.status.message.parts))
    return str(screen)


def words(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts)


play(Conversation)
