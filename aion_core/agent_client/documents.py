"""Client for the requests to another agent, and the agent's small documents: its card, its keys, its manifest."""

import asyncio
import ssl
from collections.abc import Awaitable
from functools import cache
from typing import TypeVar

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.errors import A2AClientTimeoutError
from a2a.types import AgentCard

from aion_core.agent_client.bounded import UnusableAnswer, bounded
from aion_core.agent_client.checked import usable
from aion_core.agent_client.limits import MAX_DOCUMENT_BYTES, MEGABYTE, AnswerLimits
from aion_core.agent_client.origin import OnlyForOrigin, origin_of

T = TypeVar("T")

DOCUMENT_SECONDS = 30.0
"""Time limit for a card or another document, from the connection to the last byte."""


def http_client(url: str, auth: httpx.Auth | None, timeout: httpx.Timeout, limits: AnswerLimits) -> httpx.AsyncClient:
    """Return an HTTP client with these limits for its answers. The credentials go to the origin of the URL only.

    It follows no redirects, unless a request asks for it.
    """
    only = OnlyForOrigin(url, auth) if auth is not None else None
    client = httpx.AsyncClient(auth=only, timeout=timeout, verify=_certificates(), follow_redirects=False)
    return bounded(client, limits)


async def in_time(request: Awaitable[T]) -> T:
    """Await a request for a small document. Raises A2AClientTimeoutError after DOCUMENT_SECONDS."""
    try:
        async with asyncio.timeout(DOCUMENT_SECONDS):
            return await request
    except TimeoutError:
        raise A2AClientTimeoutError(f"It takes longer than {DOCUMENT_SECONDS:.0f} s.") from None


async def document_of(request: Awaitable[httpx.Response]) -> httpx.Response:
    """Return the response to the request for a small document. Raises A2AClientError, and the request's errors."""
    response = await in_time(request)
    if len(response.content) > MAX_DOCUMENT_BYTES:
        raise UnusableAnswer(f"It is larger than {MAX_DOCUMENT_BYTES // MEGABYTE} MB.")
    return response


async def card_of(client: httpx.AsyncClient, url: str) -> AgentCard:
    """Return the card of the agent at the URL, which may be that of the card itself. Raises A2AClientError.

    Interfaces without an http or https URL are left out, and those without TLS if the card is read with it: whoever
    reads along at the other address would read the messages.
    """
    is_card = httpx.URL(url).path.endswith(".json")
    resolver = A2ACardResolver(client, url, "") if is_card else A2ACardResolver(client, url)
    with usable():
        card = await in_time(resolver.get_agent_card())
    given = {each.url: origin_of(each.url) for each in card.supported_interfaces}
    is_secure = httpx.URL(url).scheme == "https"
    usable_urls = {each for each, origin in given.items() if origin and (origin[0] == "https" or not is_secure)}
    if any(given.values()) and not usable_urls:
        raise UnusableAnswer("Its addresses begin with http://, although the card's own begins with https://.")
    interfaces = [each for each in card.supported_interfaces if each.url in usable_urls]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(interfaces)
    return card


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()
