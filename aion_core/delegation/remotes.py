"""Remote agents by their names in aion.yaml, or by URL. A name's credentials go only to the origin of its URL.

The SDK's client and httpx are imported at the first call, because most turns make none.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aion_core.delegation.remote import Remote, origin_of
from aion_core.errors import ConfigurationError
from aion_core.protocol.types import (
    AgentCard,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    StreamResponse,
    Task,
)

if TYPE_CHECKING:
    import ssl

    import httpx
    from a2a.client.client import Client, ClientCallContext
    from a2a.types import CancelTaskRequest, SubscribeToTaskRequest

CONNECT_SECONDS, READ_SECONDS, WRITE_SECONDS = 5.0, 60.0, 30.0
"""Time limits of a request. A stream of this server, or of the SDK's, has a sign of life at least every 15 s."""

CARD_SECONDS = 300.0
"""Time for which a process uses a card again."""


class Remotes:
    """The remote agents of a deployment."""

    def __init__(self, remotes: Mapping[str, Remote] | None = None) -> None:
        self._remotes = remotes or {}
        self._cards: dict[str, tuple[float, AgentCard]] = {}
        """Cards by URL, each with the time of the monotonic clock until which it is used."""

    def __contains__(self, name: object) -> bool:
        """Return True for a name of aion.yaml."""
        return name in self._remotes

    def resolve(self, name: str) -> Remote:
        """Return the remote agent with this name, or at this URL. Raises ConfigurationError for an unknown name."""
        if (remote := self._remotes.get(name)) is not None:
            return remote
        if urlsplit(name).scheme in ("http", "https"):
            return Remote(name, name)
        known = f" It has {', '.join(sorted(self._remotes))}." if self._remotes else ""
        raise ConfigurationError(
            f"aion.yaml has no remote agent {name!r}.{known} Add it below `remotes`, or give the URL of the agent."
        )

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator["CardClient"]:
        """Context manager that yields a client of the remote agent. Raises ConfigurationError."""
        remote = self.resolve(name)
        async with http_client(remote) as http:
            yield CardClient(remote, http, self._cards)


def http_client(remote: Remote) -> "httpx.AsyncClient":
    """Return an HTTP client for requests to the remote agent, with its credentials. Raises ConfigurationError."""
    import httpx

    from aion_core.delegation.credentials import OnlyForOrigin

    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, write=WRITE_SECONDS)
    auth = OnlyForOrigin(remote.address(), remote.auth()) if remote.auth is not None else None
    return httpx.AsyncClient(auth=auth, timeout=timeout, verify=_certificates(), follow_redirects=False)


class CardClient:
    """Client of a remote agent that reads the agent's card before its first request. See `RemoteClient`."""

    def __init__(self, remote: Remote, http: "httpx.AsyncClient", cards: dict[str, tuple[float, AgentCard]]) -> None:
        self._remote, self._http, self._cards = remote, http, cards
        self._client: Client | None = None

    async def send_message(
        self, request: SendMessageRequest, *, context: "ClientCallContext | None" = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Send a message and yield the responses. See `RemoteClient`."""
        async with _closing((await self._connected()).send_message(request, context=context)) as responses:
            async for response in responses:
                yield response

    async def subscribe(
        self, request: "SubscribeToTaskRequest", *, context: "ClientCallContext | None" = None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Yield the responses of a task that has begun before. See `RemoteClient`."""
        async with _closing((await self._connected()).subscribe(request, context=context)) as responses:
            async for response in responses:
                yield response

    async def get_task(self, request: GetTaskRequest, *, context: "ClientCallContext | None" = None) -> Task:
        """Return a task. See `RemoteClient`."""
        return await (await self._connected()).get_task(request, context=context)

    async def list_tasks(
        self, request: ListTasksRequest, *, context: "ClientCallContext | None" = None
    ) -> ListTasksResponse:
        """Return the tasks of a context. See `RemoteClient`."""
        return await (await self._connected()).list_tasks(request, context=context)

    async def cancel_task(self, request: "CancelTaskRequest", *, context: "ClientCallContext | None" = None) -> Task:
        """Cancel a task. See `RemoteClient`."""
        return await (await self._connected()).cancel_task(request, context=context)

    async def card(self) -> AgentCard:
        """Return the agent's card. Raises A2AClientError, also for a card that names no usable address."""
        from a2a.client.card_resolver import A2ACardResolver

        url = self._remote.address()
        until, card = self._cards.get(url, (0.0, AgentCard()))
        if time.monotonic() < until:
            return card
        # The URL of the card itself is as good as that of the agent.
        is_card = urlsplit(url).path.endswith(".json")
        resolver = A2ACardResolver(self._http, url, "") if is_card else A2ACardResolver(self._http, url)
        card = await resolver.get_agent_card()
        same = [each for each in card.supported_interfaces if origin_of(each.url) == origin_of(url)]
        if same:
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(same)
        self._cards[url] = (time.monotonic() + CARD_SECONDS, card)
        return card

    async def _connected(self) -> "Client":
        if self._client is None:
            from a2a.client import ClientConfig, ClientFactory
            from a2a.client.errors import A2AClientError
            from a2a.utils.constants import TransportProtocol

            card = await self.card()
            bindings = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]
            # Without streams, ask for the task at once and then poll it: no request lasts as long as the task.
            config = ClientConfig(
                httpx_client=self._http,
                supported_protocol_bindings=list(bindings),
                polling=not card.capabilities.streaming,
            )
            try:
                self._client = ClientFactory(config).create(card)
            except ValueError as error:
                raise A2AClientError(
                    "its card names no interface that is supported here: JSONRPC or HTTP+JSON."
                ) from error
        return self._client


def _closing(responses: Any) -> Any:
    """Return a context manager that closes the generator of responses, and so its connection."""
    return aclosing(responses)


@cache
def _certificates() -> "ssl.SSLContext":
    import httpx

    return httpx.create_ssl_context()
