"""Agent cards, the manifest, the signing keys and the health check.

Nobody is asked for credentials here (spec 8.2), except that the extended card depends on its caller.
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
from aion_core.protocol.card import KEYS_PATH, document, document_v1, moved, written
from aion_core.protocol.types import AgentCard
from aion_core.web.request_context import VERSION, entrypoint_url_of

logger = logging.getLogger(__name__)

# ── Presentation ──────────────────────────────────────────────────────────────────────────────────────────────────────

ADDRESSES = 8
"""At how many addresses a card is kept ready: a deployment has one to three."""

Sign = Callable[[AgentCard, str], AgentCard]
"""Returns the card signed, for readers of this base URL: that of the key may be below it."""


def unsigned(card: AgentCard, base_url: str) -> AgentCard:
    """Return the card as it is."""
    return card


class Showing:
    """Shows a server's cards."""

    def __init__(self, base_url: str = "", *, follows_entrypoint: bool = False, sign: Sign = unsigned) -> None:
        """`base_url`: the one that the cards are made with.

        With `follows_entrypoint`, where nobody has configured it, it gives way to the address that AWS's front says.
        """
        self.base_url = base_url
        self._follows_entrypoint, self._sign = follows_entrypoint, sign

    def address(self, entrypoint_url: str) -> str:
        """Return the base URL that a card names when it is read at this front; "" is none that is known."""
        if self._follows_entrypoint and not entrypoint_url:
            logger.warning("The event names no address, and AION_BASE_URL is empty: the card names %s.", self.base_url)
        return entrypoint_url if self._follows_entrypoint and entrypoint_url else self.base_url

    def shown(self, card: AgentCard, address: str) -> AgentCard:
        """Return the card as it is read at the address."""
        return self._sign(moved(card, self.base_url, address), address)


# ── Extended card ─────────────────────────────────────────────────────────────────────────────────────────────────────

KEPT = 64
"""How many ways of the card are kept: each is another choice of skills, or another address, signed."""


class ExtendedCard:
    """The card with everything in it, and how what is shown of it is shown."""

    def __init__(self, card: AgentCard, showing: Showing) -> None:
        self._card, self._showing = card, showing
        self._guarded = frozenset(skill.id for skill in card.skills if skill.security_requirements)
        self._shown = lru_cache(KEPT)(self._with_skills)
        self._shown(self._guarded, showing.base_url)

    def for_caller(self, skills: Collection[str] | None, entrypoint_url: str = "") -> AgentCard:
        """Return the card for a caller who may use these of the guarded skills, or all (None), and asks at this front."""
        allowed = self._guarded if skills is None else self._guarded.intersection(skills)
        return self._shown(allowed, self._showing.address(entrypoint_url))

    def _with_skills(self, allowed: frozenset[str], address: str) -> AgentCard:
        card = AgentCard()
        card.CopyFrom(self._card)
        del card.skills[:]
        card.skills.extend(skill for skill in self._card.skills if skill.id not in self._guarded or skill.id in allowed)
        return self._showing.shown(card, address)


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The card's place since 0.3, and the older one (D3)."""
MANIFEST_PATH = "/.well-known/manifest.json"
MANIFEST_VERSION = "1.0"

MAX_AGE = 300
JSON = "application/json"
"""The media type of a card. `application/a2a+json` is the REST binding's (spec 11.1); a card is read before a binding is
chosen, by browsers and crawlers too."""


def card_routes(prefixes: Iterable[str], card: AgentCard, showing: Showing, *, since: datetime) -> list[Route]:
    """Return the routes of an agent's card below each prefix; `since` is when it began to be served."""

    @lru_cache(ADDRESSES)
    def readable(address: str) -> tuple["Readable", "Readable"]:
        shown = showing.shown(card, address)
        both, first = document(shown), document_v1(shown)
        return Readable(both, since, vary=VERSION), Readable(first, since, vary=VERSION)

    async def answer(request: Request) -> Response:
        both, first = readable(showing.address(entrypoint_url_of(request.scope)))
        return (first if reads_v1_only(request) else both).answer(request)

    # A card that cannot be signed, or written, is known at start.
    readable(showing.base_url)
    return [Route(f"{prefix}{path}", answer) for prefix in prefixes for path in CARD_PATHS]


def server_routes(
    agent_ids: Iterable[str], *, name: str, keys: Sequence[Mapping[str, str]] = (), since: datetime
) -> list[Route]:
    """Return the routes of what the server says of itself: its agents, that it is well, and by which keys it signs."""
    endpoints = {agent_id: f"/agents/{agent_id}" for agent_id in agent_ids}
    manifest = Readable({"apiVersion": MANIFEST_VERSION, "name": name, "endpoints": endpoints}, since)
    routes = [Route(MANIFEST_PATH, manifest.read), Route("/health", health), Route("/health/", health)]
    if keys:
        routes.append(Route(KEYS_PATH, Readable({"keys": list(keys)}, since).read))
    return routes


async def health(request: Request) -> Response:
    """Say that this process answers, and which version it is.

    The store is not asked: who calls this replaces the process when it fails, and a new process would find the same
    store. Whether tasks can be kept is told by the alarms.
    """
    return Response(
        written({"status": "ok", "version": __version__}), headers={"cache-control": "no-store"}, media_type=JSON
    )


class Readable:
    """A document that anybody may read and keep for a while (spec 8.6.1)."""

    def __init__(self, document: Mapping[str, Any], since: datetime, *, vary: str = "") -> None:
        self._body = written(document)
        self._since = since.astimezone(UTC).replace(microsecond=0)
        self._headers = {
            "cache-control": f"public, max-age={MAX_AGE}",
            # Strong: of the very bytes, which are the same from every process.
            "etag": f'"{hashlib.sha256(self._body).hexdigest()[:32]}"',
            # When this process began to serve it. A document changes by a deployment, which begins new processes: no
            # reader has a later date and an older document, as one could with the date of a file in the package.
            "last-modified": format_datetime(self._since, usegmt=True),
            **({"vary": vary} if vary else {}),
        }

    async def read(self, request: Request) -> Response:
        """Answer the request, as the endpoint of a route."""
        return self.answer(request)

    def answer(self, request: Request) -> Response:
        """Return the document, or that the reader has it already (RFC 9110, 13.2.2)."""
        if self._is_known(request):
            return Response(status_code=304, headers=self._headers)
        if request.method == "HEAD":
            return Response(headers={**self._headers, "content-length": str(len(self._body))}, media_type=JSON)
        return Response(self._body, headers=self._headers, media_type=JSON)

    def _is_known(self, request: Request) -> bool:
        tags = request.headers.get("if-none-match")
        if tags is not None:
            known = {tag.strip().removeprefix("W/") for tag in tags.split(",")}
            return not known.isdisjoint({"*", self._headers["etag"]})
        try:
            return self._since <= parsedate_to_datetime(request.headers["if-modified-since"])
        except (KeyError, ValueError, TypeError):
            return False  # none, or no date at all: the whole document is never wrong


def reads_v1_only(request: Request) -> bool:
    """Tell whether the client says that it speaks v1; one that says nothing may speak v0.3 (spec 3.6.2)."""
    stated = request.headers.get(VERSION) or request.query_params.get(VERSION) or ""
    return re.fullmatch(r"1\.\d+(\.\d+)?", stated) is not None
