"""What an agent has to do with webhooks: keep them, and call one that is here and reached from where the agent runs."""

import asyncio
import base64
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from a2a.types import (
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    StreamResponse,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf import json_format
from standardwebhooks import Webhook, WebhookVerificationError

from aion_core.smoke.agent import POLL, RUNNING, AgentUnderTest, CheckFailed, CheckSkipped, name_of, raise_if_failed

ELSEWHERE = "https://example.com/aion-smoke"
"""A webhook of a task that is over: it is never called."""
LARGEST = 16 * 1024 * 1024


async def configs(agent: AgentUnderTest) -> str:
    """A webhook is registered, read, listed and forgotten."""
    _must_push(agent)
    answer = await agent.send(agent.request())
    if not answer.HasField("task"):
        raise CheckSkipped("the agent answers with a message, and only a task has webhooks")
    task = await agent.wait_until_done(answer.task.id)
    client, asked = agent.blocking, TaskPushNotificationConfig(task_id=task.id, url=ELSEWHERE, token="smoke")  # noqa: S106
    made = await client.create_task_push_notification_config(asked)
    get = GetTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
    if (await client.get_task_push_notification_config(get)).url != ELSEWHERE:
        raise CheckFailed("a webhook is not read as it was registered")
    listed = ListTaskPushNotificationConfigsRequest(task_id=task.id)
    if made.id not in _ids(await client.list_task_push_notification_configs(listed)):
        raise CheckFailed("a webhook that was registered is not listed")
    await client.delete_task_push_notification_config(
        DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
    )
    if made.id in _ids(await client.list_task_push_notification_configs(listed)):
        raise CheckFailed("a webhook that was deleted is listed")
    return "a webhook is registered, read, listed and forgotten"


async def delivery(agent: AgentUnderTest, url: str, port: int) -> str:
    """A webhook is told of a task to its end, and can tell who tells it."""
    _must_push(agent)
    if not url:
        raise CheckSkipped(
            "without WEBHOOK=…, a public address that leads to a port of this machine, no delivery was checked"
        )
    token = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    with _webhook(port, Webhook(token)) as heard:
        try:
            task = await agent.begin(TaskPushNotificationConfig(url=url, token=token))
        except A2AError as error:
            raise CheckFailed(f"{url} was refused: {error}") from error
        try:
            # Sooner than the check itself is given up: what was heard is to be told.
            async with asyncio.timeout(agent.patience * 0.8):
                ended = await agent.wait_until_done(task.id)
                while ended.status.state not in heard.states:  # noqa: ASYNC110 - the webhook is in a thread of its own
                    await asyncio.sleep(POLL)
        except TimeoutError as error:
            raise CheckFailed(f"the task was not told of to its end in time: {heard}") from error
    raise_if_failed(ended.status)
    if heard.strange:
        raise CheckFailed(str(heard))
    return f"{heard}; the task is {name_of(ended.status.state)}"


@dataclass
class ReceivedPosts:
    """What the webhook has heard."""

    states: list[TaskState] = field(default_factory=list)
    posts: int = 0
    strange: list[str] = field(default_factory=list)

    def take(self, body: bytes, headers: dict[str, str], key: Webhook) -> bool:
        """Note a post; return whether it is one of ours."""
        try:
            key.verify(body, headers)
            event = json_format.Parse(body, StreamResponse())
        except (WebhookVerificationError, json_format.ParseError) as error:
            self.strange.append(f"{type(error).__name__}: {error}")
            return False
        self.posts += 1
        if event.HasField("status_update"):
            self.states.append(event.status_update.status.state)
        elif event.HasField("task"):
            self.states.append(event.task.status.state)
        return True

    def __str__(self) -> str:
        told = f"{self.posts} posts came, all signed" if self.posts and not self.strange else f"{self.posts} posts came"
        if self.strange:
            told += f", and {len(self.strange)} that cannot be verified ({self.strange[0]})"
        resting = [name_of(state) for state in self.states if state not in RUNNING]
        return f"{told}; none says that the task is over" if self.posts and not resting else told


@contextmanager
def _webhook(port: int, key: Webhook) -> Iterator[ReceivedPosts]:
    """Listen on the port, on every address: whatever leads here may run in a container."""
    told = ReceivedPosts()

    class WebhookHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("content-length") or 0), LARGEST))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(204 if told.take(body, headers, key) else 401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    try:
        server = ThreadingHTTPServer(("", port), WebhookHandler)
    except OSError as error:
        raise CheckFailed(
            f"the webhook cannot listen on port {port}: {error.strerror} (WEBHOOK_PORT=… takes another)"
        ) from error
    with server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()


def _ids(answer: ListTaskPushNotificationConfigsResponse) -> set[str]:
    return {config.id for config in answer.configs}


def _must_push(agent: AgentUnderTest) -> None:
    if not agent.card.capabilities.push_notifications:
        raise CheckSkipped("the card says that the agent sends no push notifications")
