"""A program for an environment of its own that holds a2a-sdk 0.3: what its client hears at each step, as JSON lines.

Run with the server's URL, a transport (`JSONRPC`, `HTTP+JSON`) and a long text; see `tests/e2e/test_old_client.py`.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)


def message(text: str, *more: Any, **given: Any) -> Message:
    """A message of the user's, whose first part is a text."""
    parts = [Part(root=part) for part in (TextPart(text=text), *more)]
    return Message(role=Role.user, message_id=str(uuid.uuid4()), parts=parts, **given)


async def all_of(events: AsyncIterator[Any]) -> list[Any]:
    """What a stream holds, each as the client was told it: the task, or its update."""
    return [shown((event[1] or event[0]) if isinstance(event, tuple) else event) async for event in events]


def shown(model: Any) -> Any:
    """The model as v0.3's JSON."""
    return model.model_dump(mode="json", exclude_none=True)


class Steps:
    """What is done with the server; each method is a step."""

    def __init__(self, stream: Any, send: Any, poll: Any, long: str) -> None:
        """Clients that stream, that wait for the answer, and that do not."""
        self._stream, self._send, self._poll, self._long = stream, send, poll, long

    async def stream(self) -> Any:
        """An answer as it comes, and the task as it is stored."""
        file = FilePart(file=FileWithBytes(bytes="AAEC", mime_type="application/octet-stream", name="three.bin"))
        heard = await all_of(self._stream.send_message(message("one two \U0001f600 four", file)))
        return {"heard": heard, "stored": await self._stored(heard[0]["id"])}

    async def send(self) -> Any:
        """A whole answer."""
        file = FilePart(file=FileWithBytes(bytes="AAEC", mime_type="application/octet-stream", name="three.bin"))
        data = DataPart(data={"n": [1, 2.5, None]})
        (sent,) = await all_of(self._send.send_message(message("hello", file, data)))
        return {"sent": sent, "stored": await self._stored(sent["id"])}

    async def resubscribe(self) -> Any:
        """A task that runs without the client, and the rest of it."""
        task_id = await self._begun(self._long)
        return await all_of(self._stream.resubscribe(TaskIdParams(id=task_id)))

    async def cancel(self) -> Any:
        """A task that is ended."""
        canceled = shown(await self._send.cancel_task(TaskIdParams(id=await self._begun(self._long * 6))))
        return {"canceled": canceled, "stored": await self._stored(canceled["id"])}

    async def cancel_an_ended_task(self) -> Any:
        """One that has ended."""
        (sent,) = await all_of(self._send.send_message(message("done")))
        return shown(await self._send.cancel_task(TaskIdParams(id=sent["id"])))

    async def unknown_task(self) -> Any:
        """One that is not there."""
        return await self._stored(str(uuid.uuid4()))

    async def push_config(self) -> Any:
        """A webhook of a task that has one already: set, read by its id, and read without it."""
        (sent,) = await all_of(self._send.send_message(message("tell me")))
        asked = GetTaskPushNotificationConfigParams(id=sent["id"], push_notification_config_id="p")
        return {
            "task": sent["id"],
            "set": shown(await self._send.set_task_callback(self._config(sent["id"]))),
            "read": shown(await self._send.get_task_callback(asked)),
        }

    async def push_config_of_an_unknown_task(self) -> Any:
        """A webhook of no task."""
        return shown(await self._send.set_task_callback(self._config(str(uuid.uuid4()))))

    async def push_config_that_is_not_there(self) -> Any:
        """No webhook of a task."""
        (sent,) = await all_of(self._send.send_message(message("done")))
        asked = GetTaskPushNotificationConfigParams(id=sent["id"], push_notification_config_id="p")
        return shown(await self._send.get_task_callback(asked))

    def _config(self, task_id: str) -> TaskPushNotificationConfig:
        # Where nobody listens.
        config = PushNotificationConfig(id="p", url="http://127.0.0.1:9/hook", token="token")
        return TaskPushNotificationConfig(task_id=task_id, push_notification_config=config)

    async def card(self) -> Any:
        """The card that the client has, after it has looked for an extended one."""
        return shown(await self._send.get_card())

    async def _begun(self, text: str) -> str:
        (sent,) = await all_of(self._poll.send_message(message(text)))
        assert sent["status"]["state"] == "working", sent
        return str(sent["id"])

    async def _stored(self, task_id: str) -> Any:
        return shown(await self._send.get_task(TaskQueryParams(id=task_id)))


async def main(url: str, transport: str, long: str) -> None:
    """Print what is heard at each step, or the error."""
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()

        def client(**config: Any) -> Any:
            given = {"httpx_client": http, "supported_transports": [transport], "use_client_preference": True}
            return ClientFactory(ClientConfig(**given, **config)).create(card)

        steps = Steps(client(), client(streaming=False), client(streaming=False, polling=True), long)
        for name, step in vars(Steps).items():
            if not name.startswith("_"):
                print(json.dumps({"step": name, **await told(step, steps)}))


async def told(step: Callable[[Steps], Awaitable[Any]], steps: Steps) -> dict[str, Any]:
    """What came of the step."""
    try:
        return {"heard": await step(steps)}
    except Exception as error:
        rpc = getattr(error, "error", None)
        return {
            "error": {
                "name": type(error).__name__,
                "code": getattr(rpc, "code", None),
                "http": getattr(error, "status_code", None),
                "message": str(error),
            }
        }


asyncio.run(main(*sys.argv[1:]))
