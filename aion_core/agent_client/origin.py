"""Origin of a URL (scheme, host and port, RFC 6454), and credentials that go to one origin only."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("127.0.0.1", "::1")


def origin_of(url: str | httpx.URL) -> tuple[str, str, int] | None:
    """Return the scheme, host and port of a URL, as httpx connects to it; None if that is no http or https URL.

    The names of this machine are one host: a server at 127.0.0.1 may call itself localhost.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return None
    if parsed.scheme not in _PORTS or not parsed.host:
        return None
    host = "localhost" if parsed.host in _LOOPBACK else parsed.host
    port = parsed.port or _PORTS[parsed.scheme]
    return (parsed.scheme, host, port) if port < 2**16 else None


class OnlyForOrigin(httpx.Auth):
    """Authentication that is left out for requests to any other origin than that of a URL."""

    def __init__(self, url: str, inner: httpx.Auth) -> None:
        self._origin, self._inner = origin_of(url), inner
        self.requires_request_body = inner.requires_request_body

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Authenticate the request if it goes to the origin."""
        if self._origin is None or origin_of(request.url) != self._origin:
            yield request
            return
        async with aclosing(self._inner.async_auth_flow(request)) as flow:
            authenticated = await anext(flow)
            while True:
                response = yield authenticated
                try:
                    authenticated = await flow.asend(response)
                except StopAsyncIteration:
                    return
