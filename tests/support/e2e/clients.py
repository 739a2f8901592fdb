"""Official A2A client, created as in an application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import AgentCard


@asynccontextmanager
async def official_client(
    url: str, *, version: str = "1.0", streaming: bool = True, binding: str = "JSONRPC", auth: httpx.Auth | None = None
) -> AsyncIterator[Client]:
    """Return the a2a-sdk's client for the server's card, limited to one protocol version and one binding."""
    async with httpx.AsyncClient(timeout=120, auth=auth) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        only = AgentCard()
        only.CopyFrom(card)
        del only.supported_interfaces[:]
        only.supported_interfaces.extend(
            interface
            for interface in card.supported_interfaces
            if (interface.protocol_version, interface.protocol_binding) == (version, binding)
        )
        assert only.supported_interfaces, f"the card offers no {version} on {binding}"
        config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(only)
