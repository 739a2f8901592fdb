"""Which extensions a request declares, which of them are active, and which it must not leave out (spec 3.6.2, 4.6)."""

from dataclasses import dataclass

from a2a.utils.errors import ExtensionSupportRequiredError
from starlette.requests import Request

from aion_core.protocol.types import AgentCard
from aion_core.web.versions import V1

HEADER = {V1: "A2A-Extensions", "0.3": "X-A2A-Extensions"}
"""The header's name in each version; either is read in both."""

MAX_DECLARED = 64
"""How many of them are looked at: more than any agent knows."""


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What came of a request's extensions."""

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
