"""A program for an environment of its own that holds a2a-sdk 0.3: what its client hears, as JSON lines.

Run with the server's URL, `stream` or `send`, and the text; see `tests/e2e/test_old_client.py`.
"""

import asyncio
import json
import sys
import uuid
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import FilePart, FileWithBytes, Message, Part, Role, TaskQueryParams, TextPart


async def main(url: str, how: str, text: str) -> None:
    """Send the text with a file, and print each thing that comes back, then the task as it is stored."""
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client: Any = ClientFactory(ClientConfig(httpx_client=http, streaming=how == "stream")).create(card)
        file = FilePart(file=FileWithBytes(bytes="AAEC", mime_type="application/octet-stream", name="three.bin"))
        message = Message(
            role=Role.user, message_id=str(uuid.uuid4()), parts=[Part(root=TextPart(text=text)), Part(root=file)]
        )
        task_id = ""
        async for heard in client.send_message(message):
            task, update = heard
            task_id = task.id
            print(json.dumps((update or task).model_dump(mode="json", exclude_none=True)))
        print(
            json.dumps((await client.get_task(TaskQueryParams(id=task_id))).model_dump(mode="json", exclude_none=True))
        )


asyncio.run(main(*sys.argv[1:]))
