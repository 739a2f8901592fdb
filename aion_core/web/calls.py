"""Who calls, for which agent, and in which tenant: what a request says of itself beside its operation."""

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder, ServerCallContextBuilder
from starlette.requests import Request

from aion_core.errors import TaskNotFound
from aion_core.ports import ANONYMOUS
from aion_core.protocol.errors import to_wire
from aion_core.protocol.extensions import ALLOWED_SKILLS
from aion_core.protocol.types import AgentCard
from aion_core.tasks.call import Call
from aion_core.web.auth import CALLER, Caller
from aion_core.web.extensions import negotiate
from aion_core.web.front import front_of
from aion_core.web.request_handler import CALL, SPOKEN
from aion_core.web.tenants import owner_in
from aion_core.web.versions import V1

WORK = "aion.work"
"""Where an ASGI scope holds the set of tasks that a request has set going."""

TIME_UP = "aion.time_up"
"""Where an ASGI scope says until when this process serves the request."""


def owner_of(caller: Caller | None) -> str:
    """Return who owns what the caller makes, outside of any tenant."""
    return caller.principal.owner if caller else ANONYMOUS


class CallContextBuilder(ServerCallContextBuilder):
    """Makes of a request the context in which the handler answers it."""

    def __init__(self, agent_id: str, card: AgentCard | None = None, version: str = V1) -> None:
        """`version`: which the requests speak."""
        self._agent_id, self._card, self._version = agent_id, card or AgentCard(), version
        self._inner = DefaultServerCallContextBuilder()

    def build(self, request: Request) -> ServerCallContext:
        """Return the call's context, in the tenant that the caller's credentials are for, or in none."""
        return self.build_in(request, "")

    def build_in(self, request: Request, tenant: str) -> ServerCallContext:
        """Return the call's context in the tenant, whose things are the caller's there only.

        Raises TaskNotFoundError for another tenant than the credentials are for: nothing of it is there for the caller.
        """
        caller = self._caller(request)
        admitted_to = caller.principal.tenant if caller else ""
        if tenant and admitted_to and tenant != admitted_to:
            raise to_wire(TaskNotFound(""))
        principal = owner_of(caller)
        context = self._inner.build(request)
        declared = negotiate(request, self._card).declared
        # The SDK reads the one name of the header only.
        context.requested_extensions = set(declared)
        context.state[SPOKEN] = self._version
        context.tenant = tenant or admitted_to
        context.state[CALL] = Call(
            owner_in(principal, tenant or admitted_to),
            self._agent_id,
            request.scope[WORK],
            time_up=request.scope[TIME_UP],
            # A structured header puts its text in quotes (draft-ietf-httpapi-idempotency-key-header).
            idempotency_key=request.headers.get("Idempotency-Key", "").strip().strip('"'),
            last_heard=request.headers.get("Last-Event-ID", ""),
            extensions=frozenset(declared),
            caller=principal,
            front=front_of(request.scope),
        )
        if caller and caller.skills is not None:
            context.state[ALLOWED_SKILLS] = sorted(caller.skills)
        return context

    def _caller(self, request: Request) -> Caller | None:
        """Return who was admitted to this agent; None where it asks nobody."""
        caller: Caller | None = request.scope.get(CALLER)
        if caller is None and not self._card.security_requirements:
            return None
        if caller is None or caller.agent_id != self._agent_id:
            # The layer in front and the routes disagree about whose path this is: nobody is served on a guess.
            raise RuntimeError(f"A request reached {self._agent_id} without having been admitted to it.")
        return caller
