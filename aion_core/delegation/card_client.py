"""Client of a remote agent that reads the agent's card before its first request, and uses a card again for a while."""

import time

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import Client
from a2a.client.errors import A2AClientError
from a2a.types import AgentCard
from a2a.utils.constants import TransportProtocol

from aion_core.agent_client.checked import CheckedClient
from aion_core.agent_client.documents import card_of
from aion_core.agent_client.origin import origin_of
from aion_core.delegation.remote import Remote

CARD_SECONDS = 300.0
"""Time for which a process uses a card again."""

MAX_CARDS = 16
"""Number of cards that a process keeps. A message may name any URL."""


class CardClient(CheckedClient):
    """Client of a remote agent. It is a `RemoteClient`."""

    def __init__(self, remote: Remote, http: httpx.AsyncClient, cards: dict[str, tuple[float, AgentCard]]) -> None:
        super().__init__()
        self._remote, self._http, self._cards = remote, http, cards

    async def card(self) -> AgentCard:
        """Return the agent's card. Raises A2AClientError, also for a card that names no usable address."""
        url = self._remote.address()
        until, card = self._cards.get(url, (0.0, AgentCard()))
        if time.monotonic() < until:
            return card
        card = await card_of(self._http, url)
        same = [each for each in card.supported_interfaces if origin_of(each.url) == origin_of(url)]
        if same:
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(same)
        self._cards.pop(url, None)
        while len(self._cards) >= MAX_CARDS:
            del self._cards[next(iter(self._cards))]
        self._cards[url] = (time.monotonic() + CARD_SECONDS, card)
        return card

    async def _connected(self) -> Client:
        if self._client is None:
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
