"""Who calls, for which agent, and in which tenant: what a request says of itself beside its operation."""

from dataclasses import replace

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder, ServerCallContextBuilder
from starlette.requests import Request

from aion_core.protocol.types import AgentCard
from aion_core.tasks.service import Call
from aion_core.web.extensions import negotiate
from aion_core.web.request_handler import CALL, SPOKEN
from aion_core.web.tenants import owner_in
from aion_core.web.versions import V1

WORK = "aion.work"
"""Where an ASGI scope holds the set of tasks that a request has set going."""

TIME_UP = "aion.time_up"
"""Where an ASGI scope says until when this process serves the request."""

_ANONYMOUS = "anonymous"
"""The owner where nobody is asked who they are."""


class CallContextBuilder(ServerCallContextBuilder):
    """Makes of a request the context in which the handler answers it."""

    def __init__(self, agent_id: str, card: AgentCard | None = None, version: str = V1) -> None:
        """`version`: which the requests speak."""
        self._agent_id, self._card, self._version = agent_id, card or AgentCard(), version
        self._inner = DefaultServerCallContextBuilder()

    def build(self, request: Request) -> ServerCallContext:
        """Return the call's context, in no tenant."""
        context = self._inner.build(request)
        declared = negotiate(request, self._card).declared
        # The SDK reads the one name of the header only.
        context.requested_extensions = set(declared)
        context.state[SPOKEN] = self._version
        context.state[CALL] = Call(
            _ANONYMOUS,
            self._agent_id,
            request.scope[WORK],
            time_up=request.scope[TIME_UP],
            # A structured header puts its text in quotes (draft-ietf-httpapi-idempotency-key-header).
            idempotency_key=request.headers.get("Idempotency-Key", "").strip().strip('"'),
            last_heard=request.headers.get("Last-Event-ID", ""),
            extensions=frozenset(declared),
        )
        return context

    def build_in(self, request: Request, tenant: str) -> ServerCallContext:
        """Return the call's context in the tenant, whose things are the caller's there only."""
        context = self.build(request)
        context.tenant = tenant
        call: Call = context.state[CALL]
        context.state[CALL] = replace(call, owner=owner_in(call.owner, tenant))
        return context
