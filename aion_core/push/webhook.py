"""Webhook port: notifications, their HTTP requests, and the outcomes of a post."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from aion_core.engine.push_config import PushConfig
from aion_core.protocol.types import Event, Task
from aion_core.table.keys import TaskKey

POST_SECONDS = 20.0
"""Longest total duration of a post, in seconds."""


class Notification(Struct, frozen=True):
    """One event for one push config. It is the same at each attempt to post it."""

    id: str
    """Identifies the task, event and config, so that a receiver can detect repeats."""
    task: TaskKey
    generation: int
    event: Event
    snapshot: Task | None = None
    """The task as of this event, for receivers of version 0.3; None for other receivers."""


class WebhookRequest(Struct, frozen=True):
    """Headers and body of a post to a webhook. Both may contain secrets, so the repr omits them."""

    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return "WebhookRequest()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # `rich` prints the result of this method instead of the result of Struct's method, which has the secrets.
        return []


class Render(Protocol):
    """Pure function that makes the HTTP request of a notification."""

    def __call__(self, config: PushConfig, notification: Notification, *, at: datetime) -> WebhookRequest:
        """Return the HTTP request to post at this time. Only timestamp and signature differ between attempts."""
        ...


class Delivered(Struct, frozen=True):
    """Outcome of a post: the webhook accepted it with a 2xx response."""


class WebhookGone(Struct, frozen=True):
    """Outcome of a post: a 410 response. The receiver accepts no more posts at this URL."""


class PostRefused(Struct, frozen=True):
    """Outcome of a post: any other response. This includes redirects, because they are not followed."""

    status: int
    retry_after: float | None = None
    """Value of the Retry-After header in seconds; None without the header."""


class Unreachable(Struct, frozen=True):
    """Outcome of a post without a response: no connection, an invalid certificate, or a timeout."""

    reason: str
    """Short reason for logs, without secrets."""


class Blocked(Struct, frozen=True):
    """Outcome of a post that was not sent, because the SSRF check forbids the address."""

    reason: str


PostOutcome = Delivered | WebhookGone | PostRefused | Unreachable | Blocked


class WebhookClient(Protocol):
    """HTTP client for webhook URLs. Clients choose the URLs, so each may be an attacker's."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """Check the webhook's address, post once within POST_SECONDS, and return the outcome. Never raise."""
        ...
