"""fasta2a, pydantic-ai's client: the texts of the task in its responses."""

import uuid
from typing import Any

from fasta2a.client import A2AClient
from play import Screen, play


class Conversation:
    def __init__(self, url: str) -> None:
        self._client = A2AClient(url)
        self._client.http_client.timeout = 90

    async def send(self, text: str) -> str:
        return shown(await self._client.send_message(message(text)))

    async def stream(self, text: str) -> str:
        screen = Screen()
        async for response in self._client.stream_message(message(text)):
            for kind, event in read(response).items():
                if kind == "artifact_update":
                    artifact = event["artifact"]
                    screen.add(artifact["artifact_id"], words(artifact), append=event.get("append", False))
                elif kind == "status_update" and (said := event["status"].get("message")):
                    screen.add(said["message_id"], words(said))
        return str(screen)

    async def send_to(self, task_id: str, text: str) -> str:
        return shown(await self._client.send_message(message(text, task_id=task_id)))

    async def stream_to(self, task_id: str, text: str) -> str:
        responses = [response async for response in self._client.stream_message(message(text, task_id=task_id))]
        return " | ".join(str(read(response)) for response in responses)

    async def get(self, task_id: str) -> str:
        return whole(read(await self._client.get_task(task_id)))


def message(text: str, **ids: str) -> Any:
    return {"role": "user", "message_id": str(uuid.uuid4()), "parts": [{"text": text}], **ids}


def read(response: Any) -> Any:
    if error := response.get("error"):
        raise RuntimeError(error["message"])
    return response["result"]


def shown(response: Any) -> str:
    result = read(response)
    return words(result["message"]) if "message" in result else whole(result["task"])


def whole(task: Any) -> str:
    screen = Screen()
    for artifact in task.get("artifacts", ()):
        screen.add(artifact["artifact_id"], words(artifact))
    if said := task["status"].get("message"):
        screen.add(said["message_id"], words(said))
    return str(screen)


def words(of: Any) -> str:
    return "".join(part.get("text", "") for part in of["parts"])


play(Conversation)
