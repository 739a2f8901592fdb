"""An httpx transport that connects to the very address that was checked, and to no other (R2).

A name is looked up once; if any of its addresses may not be called, none is. What then is connected to is an address,
not the name: whatever the name says a moment later, nobody asks. The Host header, SNI and the certificate's name stay
the name's. Nothing of the environment is heeded: no proxy, no certificates of its own, no netrc.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import httpx

from aion_core.push.ssrf import WebhookPolicy, check_addresses, check_url

CONNECT_SECONDS = 10.0
"""To look the name up and to be connected, TLS included."""

MOST_ADDRESSES = 4
"""How many of a name's addresses are tried, one after another, in the resolver's order."""

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks up a host for a port and returns its addresses; raises OSError where there are none."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """Return the host's addresses as the system's resolver has them; raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class PinnedTransport(httpx.AsyncBaseTransport):
    """Sends a request to a URL and an address that the guard lets be called; a connection serves one request.

    Raises WebhookBlocked, and what httpx's own transport raises.
    """

    def __init__(self, allowed: WebhookPolicy, resolve: Resolver = look_up, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: whom to trust, where it is not the public authorities."""
        self._allowed, self._resolve = allowed, resolve
        self._tls = tls

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Connect to one of the checked addresses, and return the answer."""
        target = check_url(str(request.url), self._allowed)
        clock = asyncio.get_running_loop().time
        until = clock() + CONNECT_SECONDS
        addresses: Sequence[str] = [target.host]
        if target.address is None:
            try:
                async with asyncio.timeout_at(until):
                    addresses = await self._resolve(target.host, target.port)
            except TimeoutError as error:
                raise httpx.ConnectTimeout("The name was not looked up in time.") from error
            except OSError as error:
                raise httpx.ConnectError("The name has no address.") from error
        refused: httpx.TransportError | None = None
        for address in check_addresses(target, addresses, self._allowed)[:MOST_ADDRESSES]:
            try:
                return await self._send(request, address, target.host, until - clock())
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                # Nothing has been said yet: the host may be heard at its next address.
                refused = error
            if clock() >= until:
                break
        assert refused is not None  # noqa: S101  # there is one address at least
        raise refused

    async def _send(self, request: httpx.Request, address: str, name: str, seconds: float) -> httpx.Response:
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            # With the Host of the name.
            headers=request.headers,
            stream=request.stream,
            extensions={
                **request.extensions,
                "sni_hostname": name,
                "timeout": {**request.extensions.get("timeout", {}), "connect": max(seconds, 0.001)},
            },
        )
        # One for each request: a connection that was made for one name is no other's of the same address.
        transport = httpx.AsyncHTTPTransport(verify=self._trusted(request.url.scheme), trust_env=False)
        try:
            response = await transport.handle_async_request(pinned)
        except BaseException:
            await transport.aclose()
            raise
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Closing(response, transport),
            extensions=response.extensions,
        )

    def _trusted(self, scheme: str) -> ssl.SSLContext:
        if scheme != "https":
            # Nobody.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self._tls is None:
            # Made once, and late: reading the authorities takes its time.
            self._tls = httpx.create_ssl_context(trust_env=False)
        return self._tls


class _Closing(httpx.AsyncByteStream):
    """The body; the connection ends with it."""

    def __init__(self, response: httpx.Response, transport: httpx.AsyncHTTPTransport) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # an asynchronous transport's
        self._stream, self._transport = response.stream, transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        await self._stream.aclose()
        await self._transport.aclose()
