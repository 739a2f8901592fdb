"""Context of a request: protocol version, extensions, tenant, HTTP entry point, caller and agent."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from a2a.server.context import ServerCallContext
from a2a.utils.errors import ExtensionSupportRequiredError, TaskNotFoundError, VersionNotSupportedError
from msgspec import Struct
from starlette.requests import Request
from starlette.types import Scope

from aion_core.auth.credentials import event_text
from aion_core.auth.principal import ANONYMOUS, Principal
from aion_core.auth.tenants import TENANT_RULE, is_tenant, owner_in
from aion_core.engine.call import CallContext
from aion_core.engine.push_config import PushVersion
from aion_core.protocol.errors import invalid_params
from aion_core.protocol.message_rules import ALLOWED_SKILLS
from aion_core.protocol.types import AgentCard

# ── Version ───────────────────────────────────────────────────────────────────────────────────────────────────────────
VERSION = "A2A-Version"
V1, V03 = "1.0", "0.3"


def stated_version(request: Request) -> str:
    """Return the A2A version in the request's header or query (A2A 3.6.1); "" if the request states no version.

    If several headers state different versions, return them joined by commas.
    """
    # Split the value too, because a Function URL joins several headers of one name by commas.
    stated = dict.fromkeys(filter(None, map(str.strip, ",".join(request.headers.getlist(VERSION)).split(","))))
    return ", ".join(stated) or request.query_params.get(VERSION, "").strip()


def check_version(request: Request, version: str, name_in: Callable[[str], str]) -> None:
    """Raise VersionNotSupportedError if the request states another A2A version than `version`.

    `version` is the version of the request's method or path. A request without a stated version is accepted. By the
    specification it would have version 0.3, but then every v1.0 request without the header would fail. `name_in`
    returns the operation's method or path in a supported version, or "" if it has none; the error names it.
    """
    stated = stated_version(request)
    if not stated:
        return
    numbers = re.fullmatch(r"([0-9]+\.[0-9]+)(\.[0-9]+)?", stated)
    if numbers is None or numbers[1] != version:
        other = V03 if version == V1 else V1
        name = name_in(other) if numbers and numbers[1] == other else ""
        hint = f" In {other} it is {name}." if name else ""
        raise VersionNotSupportedError(
            f"This method is of A2A {version}, and the request's {VERSION} is {stated[:8]!r}: "
            f"send {version}, or leave it out.{hint}",
            data={"supportedVersions": f"{V1},{V03}"},
        )


# ── Extensions ────────────────────────────────────────────────────────────────────────────────────────────────────────

HEADER = {V1: "A2A-Extensions", "0.3": "X-A2A-Extensions"}
"""Name of the extensions header by A2A version. The server accepts both headers in requests of both versions."""

_HEADER_NAMES = frozenset(name.lower().encode() for name in HEADER.values())

MAX_DECLARED = 64
"""Maximum number of extensions in a request. The server ignores further ones."""


class Negotiated(Struct, frozen=True):
    """Extensions of a request: those declared by the client, and those active for the agent."""

    declared: tuple[str, ...]
    """Extension URIs of the request, in the client's order."""
    active: tuple[str, ...]
    """URIs of the declared extensions in the agent's card."""

    def headers(self, version: str) -> dict[str, str]:
        """Return the response header that lists the active extensions, if any."""
        return {HEADER[version]: ", ".join(self.active)} if self.active else {}


def negotiate(request: Request, card: AgentCard) -> Negotiated:
    """Return the extensions that the request's headers declare. Those in the agent's card are active."""
    values = [value.decode("latin-1") for name, value in request.scope["headers"] if name in _HEADER_NAMES]
    listed = [uri.strip() for value in values for uri in value.split(",")]
    declared = tuple(dict.fromkeys(uri for uri in listed if uri))[:MAX_DECLARED]
    known = {extension.uri for extension in card.capabilities.extensions}
    return Negotiated(declared, tuple(uri for uri in declared if uri in known))


def check_required(negotiated: Negotiated, card: AgentCard, version: str) -> None:
    """Raise ExtensionSupportRequiredError unless the request declares all extensions that the card requires."""
    missing = [
        extension.uri
        for extension in card.capabilities.extensions
        if extension.required and extension.uri not in negotiated.declared
    ]
    if missing:
        uris = ", ".join(missing)
        raise ExtensionSupportRequiredError(
            f"This agent requires {uris} (see its card): name it in the header {HEADER[version]}.",
            data={"extensions": uris},
        )


# ── Tenant ────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── HTTP entry point ──────────────────────────────────────────────────────────────────────────────────────────────────

_DOMAIN = re.compile(r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_THIS_MACHINE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[1-9][0-9]{0,4})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")


def entrypoint_url_of(scope: Scope) -> str:
    """Return the base URL of the request's API Gateway or Function URL; "" if the event has no valid domain.

    The URL has AWS's domain or a custom domain. AWS writes it into `requestContext`, so the caller cannot change it.
    Headers such as Host are ignored.
    """
    event = scope.get("aws.event")
    if event is None:
        return ""
    domain = event_text(event, "requestContext", "domainName").lower()
    prefix = _stage(event, domain) if event_text(event, "version") == "2.0" else _prefix(event)
    if _THIS_MACHINE.fullmatch(domain):
        # Return an http URL for `sam local`: its domain has a port, and its requestContext.path lacks the prefix.
        return f"http://{domain}{prefix or ''}"
    return f"https://{domain}{prefix}" if prefix is not None and _DOMAIN.fullmatch(domain) else ""


def _stage(event: Any, domain: str) -> str:
    """Return the path prefix of an HTTP API's stage. It is empty for a custom domain and for the stage `$default`."""
    stage = event_text(event, "requestContext", "stage")
    return f"/{stage}" if stage and ".execute-api." in domain and _PREFIX.fullmatch(f"/{stage}") else ""


def _prefix(event: Any) -> str | None:
    """Return the path prefix of a REST API's stage from a Lambda event; None for an invalid path."""
    # Ignore a slash at the end, because a client may omit the slash after the stage.
    whole, path = (unquote(event_text(event, *names)).rstrip("/") for names in (("requestContext", "path"), ("path",)))
    prefix = whole.removesuffix(path)
    return prefix if whole.endswith(path) and _PREFIX.fullmatch(prefix) else None


# ── Caller and agent ──────────────────────────────────────────────────────────────────────────────────────────────────

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
