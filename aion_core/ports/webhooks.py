"""Webhook port: notifications, HTTP requests, and outcomes of a post."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from aion_core.ports.push import PushConfig
from aion_core.ports.tasks import TaskKey
from aion_core.protocol.types import Event, Task

POST_SECONDS = 20.0
"""Longest duration of a post, in total."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One event for one config, the same at each attempt."""

    id: str
    """Identifies the task, event and config, so that a receiver can detect repeats."""
    task: TaskKey
    generation: int
    event: Event
    snapshot: Task | None = None
    """The task with this event, as receivers of version 0.3 expect it; None for others."""


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """Headers and body of a post; both may hold secrets, so the repr has neither."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Render(Protocol):
    """Renderer of a notification's request; pure."""

    def __call__(self, config: PushConfig, notification: Notification, *, at: datetime) -> WebhookRequest:
        """Return the request at this time; attempts differ in timestamp and signature only."""
        ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """Response 2xx."""


@dataclass(frozen=True, slots=True)
class WebhookGone:
    """Response 410: the receiver accepts nothing more at this URL."""


@dataclass(frozen=True, slots=True)
class PostRefused:
    """Any other response, also a redirect; redirects are not followed."""

    status: int
    retry_after: float | None = None
    """Retry-After in seconds; None without one."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No response: no connection, no valid certificate, or a timeout."""

    reason: str
    """A short text without secrets."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The address is forbidden (SSRF check); nothing was sent."""

    reason: str


PostOutcome = Delivered | WebhookGone | PostRefused | Unreachable | Blocked


class WebhookClient(Protocol):
    """HTTP client for URLs of clients: each may be an attacker's."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """Check the address and post once, within POST_SECONDS; never raises."""
        ...
