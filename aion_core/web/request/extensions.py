"""Extensions that a request declares."""

from a2a.utils.errors import ExtensionSupportRequiredError
from msgspec import Struct
from starlette.requests import Request

from aion_core.protocol.types import AgentCard
from aion_core.web.request.versions import V1

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
