"""Oldest path of the extended card."""

from collections.abc import Callable

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aion_core.errors import AionError
from aion_core.protocol.card import canonical_json
from aion_core.web.cards.documents import card_document, reads_v1_only
from aion_core.web.errors import rest_error_body
from aion_core.web.operations.discovery import extended_card
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.body import JSON
from aion_core.web.rest.binding import PRIVATE

EXTENDED_CARD_PATH = "/agent/authenticatedExtendedCard"
"""Oldest path of the extended card. The paths of v1.0 and v0.3 are in the operations table."""


def extended_card_route(
    prefix: str, services: AgentServices, build_context: Callable[[Request], ServerCallContext]
) -> Route:
    """Return the route of the extended card at its oldest path. `build_context` raises for an unauthorised caller."""

    async def answer(request: Request) -> Response:
        headers = {"cache-control": PRIVATE}
        try:
            card = await extended_card(services, pb.GetExtendedAgentCardRequest(), build_context(request))
        except (A2AError, AionError) as error:
            refusal = rest_error_body(error)
            return Response(canonical_json(refusal), refusal["error"]["code"], headers, JSON)
        body = canonical_json(card_document(card, v1_only=reads_v1_only(request)))
        return Response(body, headers=headers, media_type=JSON)

    return Route(f"{prefix}{EXTENDED_CARD_PATH}", answer)
