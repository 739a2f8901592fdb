"""httpx transport that connects only to the checked addresses of a host, against DNS rebinding.

It looks up a host name once. If one of the addresses is blocked, the request fails. Otherwise it connects to one of
these addresses, so a later DNS response has no effect. The Host header, SNI and the certificate check use the name. The
environment's proxies, certificates and netrc are ignored.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import httpx

from aion_core.push.ssrf import WebhookPolicy, check_addresses, check_url

CONNECT_SECONDS = 10.0
"""Time limit for the DNS lookup and the connection, TLS included."""

MAX_ADDRESSES = 4
"""Number of addresses of a name to try, in the resolver's order."""

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Function that looks up a host for a port and returns its addresses. Raises OSError without an address."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """Return the host's addresses from the system's resolver. Raises OSError if the host has no address."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class PinnedTransport(httpx.AsyncBaseTransport):
    """httpx transport to the URLs and addresses that a policy allows, with one connection per request.

    Raises WebhookBlocked, and the errors of httpx's transport.
    """

    def __init__(self, policy: WebhookPolicy, resolve: Resolver, tls: ssl.SSLContext | None) -> None:
        """`tls` replaces the default TLS context, which trusts the public certificate authorities."""
        self._policy, self._resolve, self._tls = policy, resolve, tls

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to one of the host's checked addresses, and return the response."""
        target = check_url(str(request.url), self._policy)
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
        for address in check_addresses(target, addresses, self._policy)[:MAX_ADDRESSES]:
            try:
                return await self._send(request, address, target.host, until - clock())
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                # Try the next address, because the connection failed before the request was sent.
                refused = error
            if clock() >= until:
                break
        assert refused is not None  # noqa: S101  # the loop has tried at least one address
        raise refused

    async def _send(self, request: httpx.Request, address: str, name: str, seconds: float) -> httpx.Response:
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            # Keep the headers: their Host header contains the host's name, not the pinned address.
            headers=request.headers,
            stream=request.stream,
            extensions={
                **request.extensions,
                "sni_hostname": name,
                "timeout": {**request.extensions.get("timeout", {}), "connect": max(seconds, 0.001)},
            },
        )
        # Use a new transport for each request, because two names with the same address must not share a connection.
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
            # httpx requires a TLS context even for http. Return one that it does not use.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self._tls is None:
            # Create the TLS context at the first request and reuse it, because its certificate authorities load slowly.
            self._tls = httpx.create_ssl_context(trust_env=False)
        return self._tls


class _Closing(httpx.AsyncByteStream):
    """Body of a response. When it is closed, it also closes the connection of its request."""

    def __init__(self, response: httpx.Response, transport: httpx.AsyncHTTPTransport) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101  # as httpx documents
        self._stream, self._transport = response.stream, transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        await self._stream.aclose()
        await self._transport.aclose()
