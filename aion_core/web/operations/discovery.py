"""GetExtendedAgentCard (A2A 3.1.11)."""

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb

from aion_core.errors import NoExtendedCard, NotSupported
from aion_core.protocol.reserved_keys import ALLOWED_SKILLS
from aion_core.protocol.types import AgentCard
from aion_core.web.operations.operation import Doc, HttpRoute, Operation, V03Form
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.call_context import call_of


async def extended_card(
    services: AgentServices, request: pb.GetExtendedAgentCardRequest, context: ServerCallContext
) -> AgentCard:
    """Return the agent's extended card for the caller. Raises NotSupported or NoExtendedCard without such a card.

    The caller is authenticated (A2A 3.1.11), because the authentication middleware has run before every operation.
    """
    if not services.card.capabilities.extended_agent_card:
        raise NotSupported("This agent does not offer an extended card; see its public card.")
    if services.extended_card is None:
        raise NoExtendedCard("Authenticated Extended Card not configured: see the public card of this agent.")
    return await services.extended_card.for_caller(context.state.get(ALLOWED_SKILLS), call_of(context).entrypoint_url)


GET_EXTENDED_AGENT_CARD = Operation(
    "GetExtendedAgentCard",
    pb.GetExtendedAgentCardRequest,
    extended_card,
    response=AgentCard,
    routes=(HttpRoute("GET", "/extendedAgentCard"),),
    v03=V03Form(
        "agent/getAuthenticatedExtendedCard",
        aliases=("agent/authenticatedExtendedCard",),
        # Serve the extended card at both paths, because an older version of the specification has the second one.
        routes=tuple(HttpRoute("GET", f"/v1/{path}") for path in ("card", "agent/authenticatedExtendedCard")),
    ),
    before_extensions=True,
    doc=Doc("Get the agent's extended card, if its public card offers one.", "card", result="The card."),
)
