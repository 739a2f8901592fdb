"""Context of a request: its protocol version, extensions, tenant, HTTP entry point, caller and agent."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder, ServerCallContextBuilder
from a2a.utils.errors import ExtensionSupportRequiredError, VersionNotSupportedError
from starlette.requests import Request
from starlette.types import Scope

from aion_core.auth.event import text_in
from aion_core.auth.principal import Principal
from aion_core.errors import TaskNotFound
from aion_core.ports import ANONYMOUS
from aion_core.protocol.errors import invalid_params, to_wire
from aion_core.protocol.message_rules import ALLOWED_SKILLS, ID_RULE, is_id
from aion_core.protocol.types import AgentCard
from aion_core.tasks.call import CallContext

# ── Version ───────────────────────────────────────────────────────────────────────────────────────────────────────────

VERSION = "A2A-Version"
V1, V03 = "1.0", "0.3"


def stated_version(request: Request) -> str:
    """Return the version that the request states, in its header or as a query parameter (spec 3.6.1); "" for none."""
    return request.headers.get(VERSION, "").strip() or request.query_params.get(VERSION, "").strip()


def settle_version(request: Request, spoken: str) -> None:
    """Refuse a request that states another version than it speaks; where it states none, it is what it speaks.

    The method's name says it in JSON-RPC, the path in REST: the specification takes a missing version for 0.3, which
    would refuse each request of v1.0 that is plainly one. Raises VersionNotSupportedError.
    """
    stated = stated_version(request)
    if not stated:
        return
    numbers = re.fullmatch(r"([0-9]+\.[0-9]+)(\.[0-9]+)?", stated)
    if numbers is None or numbers[1] != spoken:
        raise VersionNotSupportedError(
            f"This method is of A2A {spoken}, and the request's {VERSION} is {stated[:8]!r}: send {spoken}, or leave it out.",
            data={"supportedVersions": f"{V1},{V03}"},
        )


# ── Extensions ────────────────────────────────────────────────────────────────────────────────────────────────────────

HEADER = {V1: "A2A-Extensions", "0.3": "X-A2A-Extensions"}
"""The header's name in each version; either is read in both."""

MAX_DECLARED = 64
"""How many of them are looked at: more than any agent knows."""


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The outcome of the negotiation of a request's extensions."""

    declared: tuple[str, ...]
    """The URIs that the client says it knows, in its order."""
    active: tuple[str, ...]
    """Those of them that the agent's card declares too."""

    def headers(self, version: str) -> dict[str, str]:
        """Return the header that tells the client which are active; none where none is."""
        return {HEADER[version]: ", ".join(self.active)} if self.active else {}


def negotiate(request: Request, card: AgentCard) -> Negotiated:
    """Return what the request declares, and what of it the card knows."""
    values = [value for name in HEADER.values() for value in request.headers.getlist(name)]
    listed = [uri.strip() for value in values for uri in value.split(",")]
    declared = tuple(dict.fromkeys(uri for uri in listed if uri))[:MAX_DECLARED]
    known = {extension.uri for extension in card.capabilities.extensions}
    return Negotiated(declared, tuple(uri for uri in declared if uri in known))


def check_required(negotiated: Negotiated, card: AgentCard, version: str) -> None:
    """Refuse a client that does not declare an extension without which the agent cannot be used.

    Raises ExtensionSupportRequiredError that names those missing.
    """
    missing = [
        extension.uri
        for extension in card.capabilities.extensions
        if extension.required and extension.uri not in negotiated.declared
    ]
    if missing:
        uris = ", ".join(missing)
        raise ExtensionSupportRequiredError(
            f"This agent requires {uris}, as its card says: name it in the header {HEADER[version]}.",
            data={"extensions": uris},
        )


# ── Tenant ────────────────────────────────────────────────────────────────────────────────────────────────────────────

RESERVED = frozenset({"agents", "v1"})
"""What stands in a tenant's place in other paths, in whatever case: agents by their ids, and v0.3's REST binding."""


def is_tenant(name: str) -> bool:
    """Tell whether the text may name a tenant: an id that is one segment of a path, and means nothing else there."""
    return is_id(name) and "/" not in name and name.lower() not in RESERVED


def tenant_of(params: Mapping[str, Any], in_path: str = "") -> str:
    """Return the tenant that the request names, in its path or its params; "" for none.

    Raises InvalidParamsError where the two contradict each other, and for what can be no tenant.
    """
    given = params.get("tenant") or ""
    if not isinstance(given, str):
        raise invalid_params("tenant has to be a text.", "tenant")
    if given and in_path and given != in_path:
        raise invalid_params(
            "tenant is another in the request than in its path: give the same, or one of them.", "tenant"
        )
    tenant = given or in_path
    if tenant and not is_tenant(tenant):
        raise invalid_params(
            f"tenant has to be {ID_RULE}; without '/', and none of {', '.join(sorted(RESERVED))}.", "tenant"
        )
    return tenant


def owner_in(principal: str, tenant: str) -> str:
    """Return who owns what the principal makes in the tenant; without a tenant that is the principal itself."""
    if not tenant:
        return principal
    # Hashed as a pair, so that no choice of a tenant's name makes one principal's things another's.
    pair = json.dumps([principal, tenant]).encode()
    return f"tenant:{hashlib.sha256(pair).hexdigest()}"


# ── HTTP entry point ──────────────────────────────────────────────────────────────────────────────────────────────────

_DOMAIN = re.compile(r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_THIS_MACHINE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[1-9][0-9]{0,4})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")


def entrypoint_url_of(scope: Scope) -> str:
    """Return the base URL at which API Gateway or the Function URL was called; "" if the event names no valid address.

    They answer at names of their own, or at a domain that is mapped to them. The event's `requestContext`, which no
    caller writes, names it. Headers, Host among them, are not read.
    """
    event = scope.get("aws.event")
    if event is None:
        return ""
    domain = text_in(event, "requestContext", "domainName").lower()
    prefix = "" if text_in(event, "version") == "2.0" else _prefix(event)
    if _THIS_MACHINE.fullmatch(domain):
        # `sam local`: its domain has a port, its requestContext.path is the route's, and nothing stands before it.
        return f"http://{domain}{prefix or ''}"
    return f"https://{domain}{prefix}" if prefix is not None and _DOMAIN.fullmatch(domain) else ""


def _prefix(event: Any) -> str | None:
    """Return what a REST API's own path has before the one that it asks the function for: its stage; None for no such."""
    # A client may leave out the slash after the stage.
    whole, asked = (unquote(text_in(event, *names)).rstrip("/") for names in (("requestContext", "path"), ("path",)))
    prefix = whole.removesuffix(asked)
    return prefix if whole.endswith(asked) and _PREFIX.fullmatch(prefix) else None


# ── Caller and agent ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

WORK = "aion.work"
"""Where an ASGI scope holds the set of tasks that a request has set going."""

CALLER = "aion.caller"
"""Where the scope of a request holds the `Caller` that was admitted."""

CALL = "aion.call"
"""Where a ServerCallContext's state holds the `CallContext`."""

SPOKEN = "aion.version"
"""Where it holds the protocol version of the request."""

TIME_UP = "aion.deadline"
"""Where an ASGI scope says until when this process serves the request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller that was admitted, and the agent."""

    agent_id: str
    principal: Principal
    skills: frozenset[str] | None = None
    """The skills with requirements of their own that the caller fulfils; None where the agent has no such skill."""


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
        context.state[CALL] = CallContext(
            owner_in(principal, tenant or admitted_to),
            self._agent_id,
            request.scope[WORK],
            deadline=request.scope[TIME_UP],
            # A structured header puts its text in quotes (draft-ietf-httpapi-idempotency-key-header).
            idempotency_key=request.headers.get("Idempotency-Key", "").strip().strip('"'),
            last_event_id=request.headers.get("Last-Event-ID", ""),
            extensions=frozenset(declared),
            caller=principal,
            entrypoint_url=entrypoint_url_of(request.scope),
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
