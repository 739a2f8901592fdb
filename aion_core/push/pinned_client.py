"""Webhook client that connects only to checked addresses, with a time limit and without following redirects."""

import asyncio
import email.utils
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime

import httpx

from aion_core.clock import Clock
from aion_core.errors import WebhookBlocked
from aion_core.push.client import POST_SECONDS, Blocked, Delivered, PostOutcome, PostRefused, Unreachable, WebhookGone
from aion_core.push.headers import client_headers
from aion_core.push.pinned_transport import PinnedTransport, Resolver, look_up
from aion_core.push.ssrf import WebhookPolicy, check_url

MAX_BODY_BYTES = 4096
"""Number of bytes to read from a response's body. The content is ignored, but a receiver can finish sending it."""

BODY_SECONDS = 2.0
"""Time limit for reading a response's body; the outcome of the post does not depend on the body."""

_GONE = 410

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (httpx.ConnectTimeout, "no connection in time"),
    (httpx.ConnectError, "no connection"),
    (httpx.TimeoutException, "no answer in time"),
    (TimeoutError, "no answer in time"),
    (httpx.RemoteProtocolError, "the answer is not HTTP, or the connection ended before it"),
    (httpx.TransportError, "the connection broke"),
)


class PinnedWebhookClient:
    """Implementation of `WebhookClient` with `PinnedTransport`.

    httpx's own client is not used, because it stores cookies between posts.
    """

    def __init__(
        self,
        policy: WebhookPolicy,
        clock: Clock,
        *,
        resolve: Resolver = look_up,
        tls: ssl.SSLContext | None = None,
        seconds: float = POST_SECONDS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        """Limit a post to `seconds`, and the time to read the response's body to `body_seconds`."""
        self._policy, self._clock = policy, clock
        self._seconds, self._body_seconds = seconds, body_seconds
        self._transport = PinnedTransport(policy, resolve, tls)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """Check the address and post once; see `WebhookClient.post`."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(url, headers, body)
        except WebhookBlocked as blocked:
            return Blocked(str(blocked))
        except Exception as error:
            # Count any other error as a failure of the receiver.
            return Unreachable(_reason(error))

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        request = httpx.Request(
            "POST",
            check_url(url, self._policy).url,
            headers=client_headers(headers),
            content=body,
        )
        response = await self._transport.handle_async_request(request)
        try:
            await _read(response, self._body_seconds)
        finally:
            await response.aclose()
        if response.is_success:
            return Delivered()
        if response.status_code == _GONE:
            return WebhookGone()
        return PostRefused(
            response.status_code, retry_after(response.headers.get("Retry-After", ""), self._clock.now())
        )


def retry_after(header: str, now: datetime) -> float | None:
    """Return the seconds from a Retry-After header's value; None if the value is invalid (RFC 9110, 10.2.3)."""
    header = header.strip()
    if header.isascii() and header.isdecimal() and len(header) < 10:
        return float(header)
    try:
        at = email.utils.parsedate_to_datetime(header)
        return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())
    except (ArithmeticError, LookupError, TypeError, ValueError):
        # Ignore an invalid date. A hostile date may raise OverflowError, for example by its time zone.
        return None


async def _read(response: httpx.Response, seconds: float) -> None:
    """Read the start of the response's body. Ignore errors and timeouts."""
    read = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read >= MAX_BODY_BYTES:
                    return
    except (httpx.HTTPError, TimeoutError):
        return


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectError) and "CERTIFICATE" in str(error):
        return "no valid certificate"
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), type(error).__name__)
