"""What a client reads before it says anything: the cards, the manifest, and whether the server is well.

None of it asks who reads (spec 8.2), but for the extended card.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import Any

from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.request_handler import RequestHandler03
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aion_core import __version__
from aion_core.protocol.card import KEYS_PATH, card_v03, document, document_v1, written
from aion_core.protocol.types import AgentCard
from aion_core.web.errors import rest_error_body
from aion_core.web.request_context import front_of
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.showing import ADDRESSES, Showing

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The card's place since 0.3, and the older one (D3)."""
EXTENDED_CARD_PATH = "/agent/authenticatedExtendedCard"
"""Where a GET finds the extended card by its oldest name (D4); v1.0's and v0.3's own paths are the REST binding's."""
MANIFEST_PATH = "/.well-known/manifest.json"
MANIFEST_VERSION = "1.0"

MAX_AGE = 300
NOT_SHARED = "private, no-store"
"""What is said to one caller is nobody else's: the `Cache-Control` of an extended card."""

JSON = "application/json"
"""The media type of a card. `application/a2a+json` is the REST binding's (spec 11.1); a card is read before a binding is
chosen, by browsers and crawlers too."""

_VERSION = "A2A-Version"


def card_routes(prefixes: Iterable[str], card: AgentCard, showing: Showing, *, since: datetime) -> list[Route]:
    """Return the routes of an agent's card below each prefix; `since` is when it began to be served."""

    @lru_cache(ADDRESSES)
    def readable(address: str) -> tuple["Readable", "Readable"]:
        shown = showing.shown(card, address)
        both, first = document(shown), document_v1(shown)
        return Readable(both, since, vary=_VERSION), Readable(first, since, vary=_VERSION)

    async def answer(request: Request) -> Response:
        both, first = readable(showing.address(front_of(request.scope)))
        return (first if _reads_v1_only(request) else both).answer(request)

    # A card that cannot be signed, or written, is known at start.
    readable(showing.base_url)
    return [Route(f"{prefix}{path}", answer) for prefix in prefixes for path in CARD_PATHS]


def extended_card_route(
    prefix: str, handler: AionRequestHandler, call: Callable[[Request], ServerCallContext]
) -> Route:
    """Return the route of the extended card's oldest name (D4); `call` says who asks, or raises that nobody may."""

    async def answer(request: Request) -> Response:
        headers = {"cache-control": NOT_SHARED}
        try:
            card = await handler.on_get_extended_agent_card(pb.GetExtendedAgentCardRequest(), call(request))
        except A2AError as error:
            refusal = rest_error_body(error)
            return Response(written(refusal), refusal["error"]["code"], headers, JSON)
        body = written((document_v1 if _reads_v1_only(request) else document)(card))
        return Response(body, headers=headers, media_type=JSON)

    return Route(f"{prefix}{EXTENDED_CARD_PATH}", answer)


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


class Handler03(RequestHandler03):
    """The SDK's v0.3 operations, with the extended card as v0.3 clients get the public one."""

    async def on_get_extended_agent_card(
        self, request: v03.GetAuthenticatedExtendedCardRequest, context: ServerCallContext
    ) -> v03.AgentCard:
        """Return the extended card in v0.3's type."""
        card = await self.request_handler.on_get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context)
        return card_v03(card)


def _reads_v1_only(request: Request) -> bool:
    """Tell whether the client says that it speaks v1; one that says nothing may speak v0.3 (spec 3.6.2)."""
    stated = request.headers.get(_VERSION) or request.query_params.get(_VERSION) or ""
    return re.fullmatch(r"1\.\d+(\.\d+)?", stated) is not None
