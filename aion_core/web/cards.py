"""Agent cards, the manifest, the signing keys and the health check.

These routes require no credentials (A2A 8.2). The extended card does, because it depends on its caller; it is an
operation.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aion_core import __version__
from aion_core.protocol.card import KEYS_PATH, canonical_json, document_v1, with_base_url, with_input_modes
from aion_core.protocol.types import AgentCard
from aion_core.web.request_context import VERSION, entrypoint_url_of

logger = logging.getLogger(__name__)

# ── Publication ───────────────────────────────────────────────────────────────────────────────────────────────────────

CACHED_BASE_URLS = 8
"""Maximum number of cached cards of an agent, one for each base URL. A deployment has one to three base URLs."""

InputModes = Callable[[], tuple[str, ...]]
"""Function that returns the media types that reach an agent's loaded code, or () to publish the card's own types."""

Sign = Callable[[AgentCard, str], AgentCard]
"""Function from a card and its base URL to the signed card. The URL of the public key may depend on the base URL."""


def unsigned(card: AgentCard, base_url: str) -> AgentCard:
    """Return the card unchanged, in a deployment without a signing key."""
    return card


class CardPublisher:
    """Publisher of agent cards: puts the request's base URL into the card and signs it."""

    def __init__(self, base_url: str = "", *, follows_entrypoint: bool = False, sign: Sign = unsigned) -> None:
        """`base_url` is the base URL in the unpublished cards.

        With `follows_entrypoint`, a published card has the URL of the API Gateway or Function URL that received the
        request, if AWS's event contains the URL.
        """
        self.base_url = base_url
        self._follows_entrypoint, self._sign = follows_entrypoint, sign

    def base_url_for(self, entrypoint_url: str) -> str:
        """Return the card's base URL for a request to this HTTP entry point; "" means an unknown entry point."""
        if self._follows_entrypoint and not entrypoint_url:
            logger.warning(
                "AWS's event has no domain, and AION_BASE_URL is empty: the card has the URL %s.", self.base_url
            )
        return entrypoint_url if self._follows_entrypoint and entrypoint_url else self.base_url

    def publish(self, card: AgentCard, base_url: str) -> AgentCard:
        """Return the signed card. The agent's URLs in it begin with `base_url`."""
        return self._sign(with_base_url(card, self.base_url, base_url), base_url)


# ── Extended card ─────────────────────────────────────────────────────────────────────────────────────────────────────

CACHED_EXTENDED_CARDS = 64
"""Maximum number of cached extended cards, one for each set of allowed skills and base URL."""


class ExtendedCardPublisher:
    """Publisher of an agent's extended card. Each caller's card contains only the caller's skills."""

    def __init__(self, card: AgentCard, publisher: CardPublisher, input_modes: InputModes = tuple) -> None:
        self._card, self._publisher, self._input_modes = card, publisher, input_modes
        self._restricted = frozenset(skill.id for skill in card.skills if skill.security_requirements)
        self._published = lru_cache(CACHED_EXTENDED_CARDS)(self._publish)
        # Publish a card now, so that an error in the card or its signature is raised at the start.
        self._published(self._restricted, publisher.base_url, ())

    def for_caller(self, skills: Collection[str] | None, entrypoint_url: str = "") -> AgentCard:
        """Return the signed extended card for a caller and the HTTP entry point of the request.

        `skills` has the restricted skills that this caller may use; None allows all.
        """
        allowed = self._restricted if skills is None else self._restricted.intersection(skills)
        return self._published(allowed, self._publisher.base_url_for(entrypoint_url), self._input_modes())

    def _publish(self, allowed: frozenset[str], base_url: str, modes: tuple[str, ...]) -> AgentCard:
        card = AgentCard()
        card.CopyFrom(with_input_modes(self._card, modes))
        del card.skills[:]
        card.skills.extend(
            skill for skill in self._card.skills if skill.id not in self._restricted or skill.id in allowed
        )
        return self._publisher.publish(card, base_url)


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Paths of the public card: the path since v0.3, and the older one."""
MANIFEST_PATH = "/.well-known/manifest.json"
MANIFEST_VERSION = "1.0"

MAX_AGE = 300
JSON = "application/json"
"""Media type of a card. Browsers and crawlers also read cards: `application/a2a+json` is for HTTP+JSON (A2A 11.1)."""


def card_routes(
    prefixes: Iterable[str],
    card: AgentCard,
    publisher: CardPublisher,
    *,
    since: datetime,
    input_modes: InputModes = tuple,
) -> list[Route]:
    """Return the routes of an agent's public card below each path prefix. `since` is the start time of this process."""

    @lru_cache(CACHED_BASE_URLS)
    def published(base_url: str, modes: tuple[str, ...]) -> AgentCard:
        return publisher.publish(with_input_modes(card, modes), base_url)

    @lru_cache(2 * CACHED_BASE_URLS)
    def document(base_url: str, modes: tuple[str, ...], *, v1_only: bool) -> "CacheableDocument":
        return CacheableDocument(card_document(published(base_url, modes), v1_only=v1_only), since, vary=VERSION)

    async def answer(request: Request) -> Response:
        base_url = publisher.base_url_for(entrypoint_url_of(request.scope))
        return document(base_url, input_modes(), v1_only=reads_v1_only(request)).answer(request)

    # Publish a card now, so that an error in the card or its signature is raised at the start.
    document(publisher.base_url, (), v1_only=True)
    return [Route(f"{prefix}{path}", answer) for prefix in prefixes for path in CARD_PATHS]


def server_routes(
    agent_ids: Iterable[str], *, name: str, keys: Sequence[Mapping[str, str]] = (), since: datetime
) -> list[Route]:
    """Return the routes of the manifest, the health check and the public keys of the card signatures."""
    endpoints = {agent_id: f"/agents/{agent_id}" for agent_id in agent_ids}
    manifest = CacheableDocument({"apiVersion": MANIFEST_VERSION, "name": name, "endpoints": endpoints}, since)
    routes = [Route(MANIFEST_PATH, manifest.read), Route("/health", health), Route("/health/", health)]
    if keys:
        routes.append(Route(KEYS_PATH, CacheableDocument({"keys": list(keys)}, since).read))
    return routes


async def health(request: Request) -> Response:
    """Return the status and version of this process.

    The store is not checked: a failed check would only replace the process, and the new process would have the same
    store. The alarms report an unavailable store.
    """
    return Response(
        canonical_json({"status": "ok", "version": __version__}), headers={"cache-control": "no-store"}, media_type=JSON
    )


class CacheableDocument:
    """Public document (JSON or a file) with HTTP caching headers and conditional requests (A2A 8.6.1)."""

    def __init__(
        self,
        document: Mapping[str, Any] | bytes,
        since: datetime,
        *,
        vary: str = "",
        media_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`document` is JSON, or the bytes of a file. `headers` are added to each response."""
        self._body = document if isinstance(document, bytes) else canonical_json(document)
        self._since, self._media_type = since.astimezone(UTC).replace(microsecond=0), media_type
        self._headers = {
            "cache-control": f"public, max-age={MAX_AGE}",
            # Use a strong ETag, because every process returns the same bytes.
            "etag": f'"{hashlib.sha256(self._body).hexdigest()[:32]}"',
            # Use the start of this process: only a deployment changes a document, and it starts new processes. All
            # files of a package have the same date, so their date would not show a change.
            "last-modified": format_datetime(self._since, usegmt=True),
            **({"vary": vary} if vary else {}),
            **(headers or {}),
        }

    async def read(self, request: Request) -> Response:
        """Return the response to a request. This is Starlette's endpoint for the document's route."""
        return self.answer(request)

    def answer(self, request: Request) -> Response:
        """Return the document, or status 304 if the client already has it (RFC 9110 13.2.2)."""
        if self._is_known(request):
            return Response(status_code=304, headers=self._headers)
        if request.method == "HEAD":
            return Response(
                headers={**self._headers, "content-length": str(len(self._body))}, media_type=self._media_type
            )
        return Response(self._body, headers=self._headers, media_type=self._media_type)

    def _is_known(self, request: Request) -> bool:
        tags = request.headers.get("if-none-match")
        if tags is not None:
            known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
            return not known.isdisjoint({"*", self._headers["etag"]})
        try:
            return self._since <= parsedate_to_datetime(request.headers["if-modified-since"])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return False  # If-Modified-Since is missing or invalid. Its time zone may raise OverflowError.


def reads_v1_only(request: Request) -> bool:
    """Return True if the request states A2A version 1. A client that states no version may use v0.3 (A2A 3.6.2)."""
    stated = request.headers.get(VERSION) or request.query_params.get(VERSION) or ""
    return re.fullmatch(r"1\.\d+(\.\d+)?", stated) is not None


def card_document(card: AgentCard, *, v1_only: bool) -> dict[str, Any]:
    """Return the card as JSON, for clients of v1.0 only or for clients of both versions."""
    if v1_only:
        return document_v1(card)
    # Import late, so that clients of v1.0 do not wait for the models of v0.3.
    from aion_core.protocol.card_v03 import document

    return document(card)
