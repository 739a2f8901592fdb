"""Port of the webhook client: it posts once, and returns the outcome."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

POST_SECONDS = 20.0
"""Longest total duration of a post, in seconds."""


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
