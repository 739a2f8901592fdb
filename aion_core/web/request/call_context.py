"""Context of a request's call: caller, tenant, agent and deadline."""

from collections.abc import Mapping
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.utils.errors import TaskNotFoundError
from msgspec import Struct
from starlette.requests import Request

from aion_core.auth.principal import ANONYMOUS, Principal
from aion_core.auth.tenants import TENANT_RULE, is_tenant, owner_in
from aion_core.engine.call import CallContext
from aion_core.engine.push_config import PushVersion
from aion_core.protocol.errors import invalid_params
from aion_core.protocol.reserved_keys import ALLOWED_SKILLS
from aion_core.protocol.types import AgentCard
from aion_core.web.request.entrypoint import entrypoint_url_of, is_buffered
from aion_core.web.request.extensions import negotiate
from aion_core.web.request.versions import V1

BACKGROUND = "aion.background"
"""Key in an ASGI scope. Its value is the `BackgroundTurns` of the request."""

CALLER = "aion.caller"
"""Key in an ASGI scope. Its value is the authenticated `Caller`."""

CALL = "aion.call"
"""Key in the state of a ServerCallContext. Its value is the `CallContext`."""

REQUEST_VERSION = "aion.version"
"""Key in the state of a ServerCallContext. Its value is the protocol version of the request."""

DEADLINE = "aion.deadline"
"""Key in an ASGI scope. Its value is the deadline of the request in this process."""


class Caller(Struct, frozen=True):
    """Authenticated caller of an agent."""

    agent_id: str
    principal: Principal
    skills: frozenset[str] | None = None
    """Ids of the restricted skills permitted to the caller. `None` for an agent without restricted skills."""


def owner_of(caller: Caller | None) -> str:
    """Return the owner id of the caller's tasks outside of tenants. Without authentication it is `ANONYMOUS`."""
    return caller.principal.owner if caller else ANONYMOUS


def tenant_of(params: Mapping[str, Any], in_path: str = "") -> str:
    """Return the tenant name from the request's path or params; "" for no tenant.

    Raises InvalidParamsError for an invalid tenant, and if path and params have different tenants.
    """
    given = params.get("tenant") or ""
    if not isinstance(given, str):
        raise invalid_params("tenant has to be a text.", "tenant")
    if given and in_path and given != in_path:
        raise invalid_params(
            "tenant differs between the request and its path: give the same, or only one of them.", "tenant"
        )
    tenant = given or in_path
    if tenant and not is_tenant(tenant):
        raise invalid_params(f"tenant has to be {TENANT_RULE}.", "tenant")
    return tenant


class CallContextBuilder:
    """Builder of the context of an HTTP request, for its A2A operation."""

    def __init__(self, agent_id: str, card: AgentCard | None = None, version: str = V1) -> None:
        """`version` is the protocol version of the requests."""
        self._agent_id, self._card, self._version = agent_id, card or AgentCard(), version

    def build(self, request: Request) -> ServerCallContext:
        """Return the context of the request. A tenant in the caller's credentials is its tenant."""
        return self.build_in(request, "")

    def build_in(self, request: Request, tenant: str) -> ServerCallContext:
        """Return the context of the request in this tenant.

        Raises TaskNotFoundError if the caller's credentials belong to another tenant.
        """
        caller = self._caller(request)
        own_tenant = caller.principal.tenant if caller else ""
        if tenant and own_tenant and tenant != own_tenant:
            raise TaskNotFoundError("These credentials are for another tenant: name that tenant, or no tenant.")
        principal = owner_of(caller)
        tenant = tenant or own_tenant
        declared = negotiate(request, self._card).declared
        # Reverse the headers: a dict uses the last of several headers with one name, but the first one must count.
        headers = dict(reversed(request.headers.items()))
        call = CallContext(
            owner_in(principal, tenant) if tenant else principal,
            self._agent_id,
            request.scope[BACKGROUND],
            deadline=request.scope[DEADLINE],
            idempotency_key=_idempotency_key(headers),
            last_event_id=headers.get("last-event-id", ""),
            extensions=frozenset(declared),
            caller=principal,
            entrypoint_url=entrypoint_url_of(request.scope),
            is_buffered=is_buffered(request.scope),
        )
        state: dict[str, Any] = {"headers": headers, REQUEST_VERSION: self._version, CALL: call}
        if caller and caller.skills is not None:
            state[ALLOWED_SKILLS] = sorted(caller.skills)
        return ServerCallContext(state=state, requested_extensions=set(declared), tenant=tenant)

    def _caller(self, request: Request) -> Caller | None:
        """Return the authenticated caller of the request; None if the agent requires no authentication."""
        caller: Caller | None = request.scope.get(CALLER)
        if caller is None and not self._card.security_requirements:
            return None
        if caller is None or caller.agent_id != self._agent_id:
            # Refuse a request that the middleware has not authenticated, or only for another agent than the route's.
            raise RuntimeError(f"A request reached {self._agent_id} without having been admitted to it.")
        return caller


def _idempotency_key(headers: Mapping[str, str]) -> str:
    """Return the header Idempotency-Key; "" if it is missing. Read bytes beyond ASCII as UTF-8, if possible."""
    given = headers.get("idempotency-key", "").strip(" \t")
    # Remove the quotes of draft-ietf-httpapi-idempotency-key-header, so that a key is equal with and without them.
    if len(given) > 1 and given[0] == given[-1] == '"':
        given = given[1:-1]
    try:
        return given.encode("latin-1").decode()
    except UnicodeDecodeError:
        return given


def call_of(context: ServerCallContext) -> CallContext:
    """Return the `CallContext` stored in the SDK's context of a request."""
    call: CallContext = context.state[CALL]
    return call


def push_version_of(context: ServerCallContext) -> PushVersion:
    """Return the format version for push notifications to this client: the protocol version of its request."""
    return PushVersion(context.state[REQUEST_VERSION])
