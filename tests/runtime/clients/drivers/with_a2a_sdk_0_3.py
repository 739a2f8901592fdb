"""The official client of A2A 0.3, a2a-sdk 0.3, in a program that shows the artifacts and messages of a task."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskQueryParams, TaskState, TextPart
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
            [event] = [event async for event in client.send_message(self._message(text, task_id))]
        if isinstance(event, Message):
            return words(event.parts)
        self._remember(event[0])
        return whole(event[0])

    async def stream_to(self, task_id: str | None, text: str) -> str:
        screen = Screen()
        async with self._client(streaming=True) as client:
            async for event in client.send_message(self._message(text, task_id)):
                if isinstance(event, Message):
                    screen.add(event.message_id, words(event.parts))
                    continue
                task, update = event
                self._remember(task)
                if isinstance(update, TaskArtifactUpdateEvent):
                    screen.add(update.artifact.artifact_id, words(update.artifact.parts), append=bool(update.append))
                elif update and update.status.message:
                    screen.add(update.status.message.message_id, words(update.status.message.parts))
        return str(screen)

    async def get(self, task_id: str) -> str:
        async with self._client(streaming=False) as client:
            return whole(await client.get_task(TaskQueryParams(id=task_id)))

    @asynccontextmanager
    async def _client(self, *, streaming: bool) -> AsyncIterator[Client]:
        async with httpx.AsyncClient(timeout=90) as http:
            card = await A2ACardResolver(http, self._url).get_agent_card()
            yield ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)

    def _message(self, text: str, task_id: str | None) -> Message:
        parts = [Part(root=TextPart(text=text))]
        ids = {"message_id": str(uuid.uuid4()), "context_id": self._context, "task_id": task_id}
        return Message(role=Role.user, parts=parts, **ids)

    def _remember(self, task: Task) -> None:
        self._context = task.context_id
        self._asking = task.id if task.status.state == TaskState.input_required else None


def whole(task: Task) -> str:
    """Return the texts of the task's artifacts and of its status."""
    screen = Screen()
    for artifact in task.artifacts or ():
        screen.add(artifact.artifact_id, words(artifact.parts))
    if message := task.status.message:
        screen.add(message.message_id, words(message.parts))
    return str(screen)


def words(parts: list[Part]) -> str:
    return "".join(part.root.text for part in parts if isinstance(part.root, TextPart))


play(Conversation)
