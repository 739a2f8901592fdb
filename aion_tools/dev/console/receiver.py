"""Receiver of webhooks: it stores the posted notifications, and can simulate failures."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.engine.push_config import PushConfig
from aion_tools.dev.console import RECEIVER_PATH
from aion_tools.dev.console.signatures import is_signed

MAX_POSTS, MAX_BYTES = 100, 256 * 1024
"""Number of posts to show, and the largest body of a post."""

STATUSES = (204, 500, 410)
"""Statuses of the responses: accepted, failed, gone."""


class WebhookPost(Struct, frozen=True):
    """Received notification, with the status code of its response."""

    at: datetime
    status: int
    headers: dict[str, str]
    body: bytes

    def document(self, configs: Sequence[PushConfig]) -> dict[str, Any]:
        """Return the post as JSON. `signed` is True if one of the configs' secrets has signed the post."""
        secrets = [secret for config in configs for secret in config.secrets]
        shown = {
            name: value for name, value in self.headers.items() if name.startswith(("webhook-", "a2a-", "content-"))
        }
        return {
            "at": self.at.isoformat(),
            "status": self.status,
            "signed": is_signed(self.headers, self.body, secrets),
            "headers": shown,
            "body": self.content,
        }

    @property
    def content(self) -> Any:
        """Body as JSON; as text if it is not JSON, or has values that this server's JSON cannot express."""
        try:
            content = from_json(self.body, allow_inf_nan=False)
            json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
        except ValueError:
            return self.body.decode(errors="replace")
        return content

    @property
    def task_id(self) -> str:
        """Id of the task in a notification of A2A 1.0 or 0.3; "" if the notification has no task id."""
        content = self.content
        found = next((each for each in _objects(content) if "taskId" in each or "id" in each), {})
        return str(found.get("taskId") or found.get("id") or "")


class WebhookReceiver:
    """ASGI app. It stores the newest posts in memory, and responds to each with the chosen status code.

    It requires no credentials, because a real webhook of another service would not know this server's callers.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = STATUSES[0]
        """Status of the next responses."""
        self._posts: deque[WebhookPost] = deque(maxlen=MAX_POSTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Store the post and respond to it."""
        await (await self._receive(Request(scope, receive)))(scope, receive, send)

    async def _receive(self, request: Request) -> Response:
        body = b""
        try:
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_BYTES:
                    return Response(status_code=413)
        except ClientDisconnect:
            return Response(status_code=400)
        self._posts.append(WebhookPost(datetime.now(UTC), self.status, dict(request.headers), body))
        return Response(status_code=self.status)

    def posts_of(self, task_id: str) -> list[WebhookPost]:
        """Return the received posts of a task, newest first."""
        return [post for post in reversed(self._posts) if post.task_id == task_id]


class ReceiverMiddleware:
    """ASGI middleware. Passes posts to the receiver's path to the receiver, without authentication."""

    def __init__(self, app: ASGIApp, receiver: WebhookReceiver) -> None:
        self._app, self._receiver = app, receiver

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Receive a webhook's post, or pass the request to the app."""
        is_post = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == RECEIVER_PATH
        await (self._receiver if is_post else self._app)(scope, receive, send)


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that may contain the task's id: in A2A 1.0 a field of the post, in 0.3 the post."""
    if isinstance(content, dict):
        yield from (each for each in content.values() if isinstance(each, dict) and "id" not in content)
        yield content
