"""Routes without credentials: cards, manifest, signing keys and health check (A2A 8.2)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.protocol.card import KEYS_PATH
from aion_core.protocol.types import AgentCard
from aion_core.web.cacheable_document import CacheableDocument
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.cards.documents import card_document, reads_v1_only
from aion_core.web.cards.publication import CardPublisher
from aion_core.web.health import health
from aion_core.web.request.entrypoint import entrypoint_url_of
from aion_core.web.request.versions import VERSION

CACHED_BASE_URLS = 8
"""Maximum number of cached cards of an agent, one for each base URL. A deployment has one to three base URLs."""

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Paths of the public card: the path since v0.3, and the older one."""

MANIFEST_PATH = "/.well-known/manifest.json"
MANIFEST_VERSION = "1.0"


def card_routes(prefix: str, cards: AgentCards, publisher: CardPublisher, *, since: datetime) -> list[Route]:
    """Return the routes of an agent's public card below a path prefix. `since` is the start time of this process."""

    @lru_cache(CACHED_BASE_URLS)
    def published(base_url: str, profile: AgentProfile) -> AgentCard:
        return publisher.publish(cards.public_of(profile), base_url, prefix)

    @lru_cache(2 * CACHED_BASE_URLS)
    def document(base_url: str, profile: AgentProfile, *, v1_only: bool) -> "CacheableDocument":
        return CacheableDocument(card_document(published(base_url, profile), v1_only=v1_only), since, vary=VERSION)

    async def answer(request: Request) -> Response:
        base_url = publisher.base_url_for(entrypoint_url_of(request.scope))
        return document(base_url, await cards.when_known(), v1_only=reads_v1_only(request)).answer(request)

    # Publish a card now, so that an error in the card or its signature is raised at the start.
    document(publisher.base_url, UNKNOWN, v1_only=True)
    return [Route(f"{prefix}{path}", answer) for path in CARD_PATHS]


def server_routes(
    agent_ids: Iterable[str], at_root: AgentCards, *, keys: Sequence[Mapping[str, str]] = (), since: datetime
) -> list[Route]:
    """Return the routes of the manifest, the health check and the public keys of the card signatures.

    The manifest has the name of the agent at the root.
    """
    endpoints = {agent_id: f"/agents/{agent_id}" for agent_id in agent_ids}

    @lru_cache(2)
    def manifest(name: str) -> CacheableDocument:
        return CacheableDocument({"apiVersion": MANIFEST_VERSION, "name": name, "endpoints": endpoints}, since)

    async def answer(request: Request) -> Response:
        return manifest(at_root.public_of(await at_root.when_known()).name).answer(request)

    routes = [Route(MANIFEST_PATH, answer), Route("/health", health), Route("/health/", health)]
    if keys:
        routes.append(Route(KEYS_PATH, CacheableDocument({"keys": list(keys)}, since).read))
    return routes
