"""Posts a notification: once, to the address that was checked, for so long and no longer, following nothing (R3)."""

import asyncio
import email.utils
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime

import httpx

from aion_core.errors import WebhookBlocked
from aion_core.ports import (
    POST_SECONDS,
    Blocked,
    Clock,
    Delivered,
    PostOutcome,
    Unreachable,
    WebhookGone,
    WebhookRejected,
)
from aion_core.push.pinned_transport import PinnedTransport, Resolver, look_up
from aion_core.push.ssrf import WebhookPolicy, check_url

MAX_ANSWER_BYTES = 4096
"""How much of an answer's body is read: nothing is done with it, but a receiver may want to be rid of it."""

ANSWER_SECONDS = 2.0
"""How long the body is waited for: by then the answer is known."""

_GONE = 410

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (httpx.ConnectTimeout, "no connection in time"),
    (httpx.ConnectError, "no connection"),
    (httpx.TimeoutException, "no answer in time"),
    (TimeoutError, "no answer in time"),
    (httpx.RemoteProtocolError, "the answer is no HTTP, or the connection ended before it"),
    (httpx.TransportError, "the connection broke"),
)


class PinnedWebhookClient:
    """`ports.WebhookClient`, by a transport that connects to what the guard has checked.

    httpx's own client is not used: it keeps cookies from one post to the next.
    """

    def __init__(
        self,
        allowed: WebhookPolicy,
        clock: Clock,
        *,
        resolve: Resolver = look_up,
        tls: ssl.SSLContext | None = None,
        seconds: float = POST_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """See `PinnedTransport`; a post takes so many seconds at the most, and the body of its answer so many of them."""
        self._allowed, self._clock = allowed, clock
        self._seconds, self._answer_seconds = seconds, answer_seconds
        self._transport = PinnedTransport(allowed, resolve, tls)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """See `ports.WebhookClient.post`."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(url, headers, body)
        except WebhookBlocked as blocked:
            return Blocked(str(blocked))
        except Exception as error:
            # Whatever a stranger's server makes of a connection is an answer of its kind.
            return Unreachable(_reason(error))

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        request = httpx.Request(
            "POST",
            check_url(url, self._allowed).url,
            headers={
                "Accept": "*/*",
                "Accept-Encoding": "identity",
                "User-Agent": "aion",
                **headers,
                "Connection": "close",
            },
            content=body,
        )
        response = await self._transport.handle_async_request(request)
        try:
            await _read(response, self._answer_seconds)
        finally:
            await response.aclose()
        if response.is_success:
            return Delivered()
        if response.status_code == _GONE:
            return WebhookGone()
        return WebhookRejected(
            response.status_code, retry_after(response.headers.get("Retry-After", ""), self._clock.now())
        )


def retry_after(said: str, now: datetime) -> float | None:
    """Return in how many seconds the header wants to be asked again, None where it says nothing that can be read."""
    said = said.strip()
    if said.isascii() and said.isdecimal() and len(said) < 10:
        return float(said)
    try:
        at = email.utils.parsedate_to_datetime(said)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


async def _read(response: httpx.Response, seconds: float) -> None:
    """Read a little of the body; that it breaks, or takes its time, changes nothing of what was answered."""
    read = 0
    try:
        async with asyncio.timeout(seconds):
            async for some in response.aiter_raw():
                read += len(some)
                if read >= MAX_ANSWER_BYTES:
                    return
    except (httpx.HTTPError, TimeoutError):
        return


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.ConnectError) and "CERTIFICATE" in str(error):
        return "no valid certificate"
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), type(error).__name__)
