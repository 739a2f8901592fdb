"""Client of A2A 0.3, with the official a2a-sdk 0.3: streams an answer, and reads the task.

pip install -r requirements.txt
python client.py http://127.0.0.1:8000 "Hello, who is there?"
"""

import asyncio
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskQueryParams, TextPart


async def main(url: str, text: str) -> None:
    """Send the text; print each event of the stream, then the stored task."""
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        print(f"{card.name} speaks {card.preferred_transport} {card.protocol_version}.")
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        message = Message(role=Role.user, message_id=str(uuid4()), parts=[Part(root=TextPart(text=text))])
        task = None
        async for event in client.send_message(message):
            if isinstance(event, Message):
                print(text_of(event), end="")
                continue
            task, update = event
            if isinstance(update, TaskArtifactUpdateEvent):
                print(text_of(update.artifact), end="", flush=True)
        print()
        if task is not None:
            show(await client.get_task(TaskQueryParams(id=task.id)))


def show(task: Task) -> None:
    """Print the task's state and the text of its answer."""
    print(f"{task.status.state.value}: {text_of(task.status.message) if task.status.message else ''}")


def text_of(given: object) -> str:
    """Return the text of a message or an artifact."""
    parts = [part.root for part in getattr(given, "parts", [])]
    return "".join(part.text for part in parts if isinstance(part, TextPart))


asyncio.run(main(*sys.argv[1:]))
