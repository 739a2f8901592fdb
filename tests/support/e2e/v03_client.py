"""Program for an environment with a2a-sdk 0.3. It calls each method of the client and prints the results as JSON lines.

Its arguments are the server's URL, a transport (`JSONRPC` or `HTTP+JSON`) and a long text. Used by
`tests/runtime/e2e/test_old_client.py`.
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
    """Return a user message with a text part and further parts."""
    parts = [Part(root=part) for part in (TextPart(text=text), *more)]
    return Message(role=Role.user, message_id=str(uuid.uuid4()), parts=parts, **given)


async def all_of(events: AsyncIterator[Any]) -> list[Any]:
    """Return all events of a stream; take the update from each pair of task and update."""
    return [shown((event[1] or event[0]) if isinstance(event, tuple) else event) async for event in events]


def shown(model: Any) -> Any:
    """Return the pydantic model as JSON of A2A 0.3."""
    return model.model_dump(mode="json", exclude_none=True)


class Steps:
    """Calls to the server: each method is one step."""

    def __init__(self, stream: Any, send: Any, poll: Any, long: str) -> None:
        """Use three clients: the first streams, the second blocks until the answer, the third returns immediately."""
        self._stream, self._send, self._poll, self._long = stream, send, poll, long

    async def stream(self) -> Any:
        """Stream an answer, then get the stored task."""
        file = FilePart(file=FileWithBytes(bytes="AAEC", mime_type="application/octet-stream", name="three.bin"))
        heard = await all_of(self._stream.send_message(message("one two \U0001f600 four", file)))
        return {"heard": heard, "stored": await self._stored(heard[0]["id"])}

    async def send(self) -> Any:
        """Send a blocking message; return the task with its answer."""
        file = FilePart(file=FileWithBytes(bytes="AAEC", mime_type="application/octet-stream", name="three.bin"))
        data = DataPart(data={"n": [1, 2.5, None]})
        (sent,) = await all_of(self._send.send_message(message("hello", file, data)))
        return {"sent": sent, "stored": await self._stored(sent["id"])}

    async def resubscribe(self) -> Any:
        """Resubscribe to a running task."""

        async def use(task_id: str) -> Any:
            heard = await all_of(self._stream.resubscribe(TaskIdParams(id=task_id)))
            # Return None if no chunk arrived, because the subscription then began too late: the caller tries again.
            return heard if any(event["kind"] == "artifact-update" for event in heard) else None

        times, heard = await self._while_it_runs(1, use)
        return {"times": times, "heard": heard}

    async def cancel(self) -> Any:
        """Cancel a running task."""
        _, canceled = await self._while_it_runs(6, lambda task: self._send.cancel_task(TaskIdParams(id=task)))
        return {"canceled": shown(canceled), "stored": await self._stored(canceled.id)}

    async def cancel_an_ended_task(self) -> Any:
        """Cancel a finished task."""
        (sent,) = await all_of(self._send.send_message(message("done")))
        return shown(await self._send.cancel_task(TaskIdParams(id=sent["id"])))

    async def unknown_task(self) -> Any:
        """Get an unknown task."""
        return await self._stored(str(uuid.uuid4()))

    async def refused_stream(self) -> Any:
        """Stream a message to an unknown task."""
        return await all_of(self._stream.send_message(message("hello", task_id=str(uuid.uuid4()))))

    async def refused_subscription(self) -> Any:
        """Resubscribe to an unknown task."""
        return await all_of(self._stream.resubscribe(TaskIdParams(id=str(uuid.uuid4()))))

    async def push_config(self) -> Any:
        """Set a push config for an existing task; read it by its id."""
        (sent,) = await all_of(self._send.send_message(message("tell me")))
        asked = GetTaskPushNotificationConfigParams(id=sent["id"], push_notification_config_id="p")
        return {
            "task": sent["id"],
            "set": shown(await self._send.set_task_callback(self._config(sent["id"]))),
            "read": shown(await self._send.get_task_callback(asked)),
        }

    async def push_config_of_an_unknown_task(self) -> Any:
        """Set a push config for an unknown task."""
        return shown(await self._send.set_task_callback(self._config(str(uuid.uuid4()))))

    async def push_config_that_is_not_there(self) -> Any:
        """Get a push config with an unknown id, for an existing task."""
        (sent,) = await all_of(self._send.send_message(message("done")))
        asked = GetTaskPushNotificationConfigParams(id=sent["id"], push_notification_config_id="p")
        return shown(await self._send.get_task_callback(asked))

    def _config(self, task_id: str) -> TaskPushNotificationConfig:
        # Name a port without a server, because no test step sends to this webhook.
        config = PushNotificationConfig(id="p", url="http://127.0.0.1:9/hook", token="token")
        return TaskPushNotificationConfig(task_id=task_id, push_notification_config=config)

    async def card(self) -> Any:
        """Request the extended card, and return the client's card."""
        return shown(await self._send.get_card())

    async def _while_it_runs(self, times: int, use: Callable[[str], Awaitable[Any]]) -> tuple[int, Any]:
        """Start a task and call `use` on it while it runs. If the task ends too early, start a longer one."""
        while times <= 48:
            task_id = await self._begun(self._long * times)
            try:
                if used := await use(task_id):
                    return times, used
            except Exception:
                if (await self._stored(task_id))["status"]["state"] != "completed":
                    raise
            times *= 2
        raise AssertionError("each task had ended before its use")

    async def _begun(self, text: str) -> str:
        (sent,) = await all_of(self._poll.send_message(message(text)))
        assert sent["status"]["state"] == "working", sent
        return str(sent["id"])

    async def _stored(self, task_id: str) -> Any:
        return shown(await self._send.get_task(TaskQueryParams(id=task_id)))


async def main(url: str, transport: str, long: str) -> None:
    """Print the result of each step, or its error."""
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
    """Return the step's result as JSON."""
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
