"""Checks of push notification configs, and of deliveries to a webhook on this machine."""

import asyncio
import base64
import json
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

from aion_tools.smoke.agent import POLL, RUNNING, AgentUnderTest, CheckFailed, CheckSkipped, name_of, raise_if_failed

ELSEWHERE = "https://example.com/aion-smoke"
"""URL of a webhook registered for a finished task, so that it is never called."""
LARGEST = 16 * 1024 * 1024


async def configs(agent: AgentUnderTest) -> str:
    """Check the creation, reading, listing and deletion of a push notification config."""
    _must_push(agent)
    answer = await agent.send(agent.request())
    if not answer.HasField("task"):
        raise CheckSkipped("the agent answers with a message, and only tasks have webhooks")
    task = await agent.wait_until_done(answer.task.id)
    client, config = agent.blocking, TaskPushNotificationConfig(task_id=task.id, url=ELSEWHERE, token="smoke")  # noqa: S106
    made = await client.create_task_push_notification_config(config)
    get = GetTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
    if (await client.get_task_push_notification_config(get)).url != ELSEWHERE:
        raise CheckFailed("a config differs from the created one")
    listed = ListTaskPushNotificationConfigsRequest(task_id=task.id)
    if made.id not in _ids(await client.list_task_push_notification_configs(listed)):
        raise CheckFailed("a created config is not listed")
    await client.delete_task_push_notification_config(
        DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
    )
    if made.id in _ids(await client.list_task_push_notification_configs(listed)):
        raise CheckFailed("a deleted config is still listed")
    return "a config is created, read, listed and deleted"


async def delivery(agent: AgentUnderTest, url: str, port: int) -> str:
    """Check that a webhook receives a task's notifications up to the task's end, with valid signatures."""
    _must_push(agent)
    if not url:
        raise CheckSkipped("give a public URL of a port of this machine (--webhook) to check deliveries")
    token = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    with _webhook(port, Webhook(token)) as received:
        try:
            task = await agent.begin(TaskPushNotificationConfig(url=url, token=token))
        except A2AError as error:
            raise CheckFailed(f"{url} was refused: {error}") from error
        try:
            # Stop before the check's time limit ends, so that the report shows the received requests.
            async with asyncio.timeout(agent.timeout * 0.8):
                ended = await agent.wait_until_done(task.id)
                while ended.status.state not in received.states:  # noqa: ASYNC110 - the webhook is in a thread of its own
                    await asyncio.sleep(POLL)
        except TimeoutError as error:
            raise CheckFailed(f"the webhook did not receive the task's end in time: {received}") from error
    raise_if_failed(ended.status)
    if received.invalid:
        raise CheckFailed(str(received))
    return f"{received}; the task is {name_of(ended.status.state)}"


@dataclass
class ReceivedPosts:
    """Requests received by the webhook, with the states of the task in them."""

    states: list[TaskState] = field(default_factory=list)
    posts: int = 0
    unsigned: int = 0
    """Number of requests without a valid signature. They are ignored, because anybody can call a public URL."""
    invalid: list[str] = field(default_factory=list)

    def add(self, body: bytes, headers: dict[str, str], key: Webhook) -> bool:
        """Record a request to the webhook. Return False if its signature or body is wrong."""
        try:
            key.verify(body, headers)
            event = json_format.Parse(body, StreamResponse())
        except (json.JSONDecodeError, json_format.ParseError) as error:
            self.invalid.append(f"{type(error).__name__}: {error}")
            return False
        except (WebhookVerificationError, ValueError):
            # A ValueError means that the signature's base64 or the body's UTF-8 is wrong.
            self.unsigned += 1
            return False
        self.posts += 1
        if event.HasField("status_update"):
            self.states.append(event.status_update.status.state)
        elif event.HasField("task"):
            self.states.append(event.task.status.state)
        return True

    def __str__(self) -> str:
        text = f"{self.posts} notifications arrived" + (", all signed" if self.posts and not self.invalid else "")
        if self.invalid:
            text += f", and {len(self.invalid)} with a wrong body ({self.invalid[0]})"
        if self.unsigned:
            text += f" (ignored without a valid signature: {self.unsigned})"
        done = [name_of(state) for state in self.states if state not in RUNNING]
        return f"{text}; the task's end is not among them" if self.posts and not done else text


@contextmanager
def _webhook(port: int, key: Webhook) -> Iterator[ReceivedPosts]:
    """Run a webhook on this port within the block, and yield the received requests.

    The webhook listens on every address, because the tunnel to it may run in a container.
    """
    posts = ReceivedPosts()

    class WebhookHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("content-length") or 0), LARGEST))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(204 if posts.add(body, headers, key) else 401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print no log line for the request."""

    try:
        server = ThreadingHTTPServer(("", port), WebhookHandler)
    except OSError as error:
        raise CheckFailed(
            f"the webhook cannot listen on port {port}: {error.strerror} (choose another: --webhook-port)"
        ) from error
    with server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield posts
        finally:
            server.shutdown()
            thread.join()


def _ids(answer: ListTaskPushNotificationConfigsResponse) -> set[str]:
    return {config.id for config in answer.configs}


def _must_push(agent: AgentUnderTest) -> None:
    if not agent.card.capabilities.push_notifications:
        raise CheckSkipped("the card declares no push notifications")
