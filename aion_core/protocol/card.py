"""The agent card: an agent's declaration, as A2A clients of either version read it (spec 8, R1-R6).

The card is built once, in v1.0's type. What is downloaded is one of two documents: the card as v1.0 has it, or the same
with v0.3's fields beside them (D3).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.versions import is_legacy_version
from a2a.utils._jcs import canonicalize
from google.protobuf.json_format import MessageToDict

from aion_core.protocol.aion.extensions import AION_EXTENSIONS
from aion_core.protocol.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    SecurityRequirement,
    SecurityScheme,
)

BINDINGS = ("JSONRPC", "HTTP+JSON")
"""How the protocol is spoken, what clients should prefer first (spec 8.3.1)."""
VERSIONS = ("1.0", "0.3")
"""The protocol versions that are served on one URL (D1)."""

KEYS_PATH = "/.well-known/jwks.json"
"""Where a server shows the key whose signatures its cards bear."""

_V03 = "0.3.0"
"""What a v0.3 card calls its version: three numbers, where v1.0's interfaces have two."""


def build_card(
    *,
    name: str,
    description: str,
    version: str,
    url: str,
    streaming: bool,
    skills: Sequence[AgentSkill],
    input_modes: Sequence[str],
    output_modes: Sequence[str],
    documentation_url: str = "",
    icon_url: str = "",
    provider: AgentProvider | None = None,
    extensions: Sequence[AgentExtension] = (),
    extended: bool = False,
    push_notifications: bool = False,
    security_schemes: Mapping[str, SecurityScheme] | None = None,
    security_requirements: Sequence[SecurityRequirement] = (),
) -> AgentCard:
    """Return the card of an agent that answers at `url`, in both versions and both bindings of the protocol.

    Aion's extensions are declared for every agent, before `extensions`. An agent without declared skills gets one that
    says what the agent is, and a skill without tags its id for one: a card that lacks either is invalid.
    """
    described = description or f"{name}, an agent."
    return AgentCard(
        name=name,
        description=described,
        version=version,
        supported_interfaces=[
            AgentInterface(url=_url(url, binding), protocol_binding=binding, protocol_version=spoken)
            for spoken in VERSIONS
            for binding in BINDINGS
        ],
        provider=provider,
        # Presence is what a signature covers: a url that is not there must not be there as an empty one.
        documentation_url=documentation_url or None,
        icon_url=icon_url or None,
        capabilities=AgentCapabilities(
            streaming=streaming,
            push_notifications=push_notifications,
            extended_agent_card=extended,
            extensions=_with_aions(extensions),
        ),
        security_schemes=security_schemes,
        security_requirements=security_requirements,
        default_input_modes=input_modes,
        default_output_modes=output_modes,
        skills=_tagged(skills) or [AgentSkill(id="chat", name=name, description=described, tags=["chat"])],
    )


def extend_card(
    card: AgentCard, *, name: str = "", description: str = "", version: str = "", skills: Sequence[AgentSkill] = ()
) -> AgentCard:
    """Return the extended card: what it says replaces the public card's, its skills come after those (R7)."""
    extended = AgentCard()
    extended.CopyFrom(card)
    extended.name = name or card.name
    extended.description = description or card.description
    extended.version = version or card.version
    extended.skills.extend(_tagged(skills))
    return extended


def with_base_url(card: AgentCard, base_url: str, to: str) -> AgentCard:
    """Return the card of the same agent where its server is reached at `to`, which was made for `base_url`."""
    elsewhere = AgentCard()
    elsewhere.CopyFrom(card)
    for interface in elsewhere.supported_interfaces:
        interface.url = f"{to}{interface.url.removeprefix(base_url)}"
    return elsewhere


def document_v1(card: AgentCard) -> dict[str, Any]:
    """Return the card's JSON as v1.0 has it: fields that are required or set, and no others (spec 5.7)."""
    return _settled(MessageToDict(card))


def document(card: AgentCard) -> dict[str, Any]:
    """Return the card's JSON as clients of both versions read it: v0.3's fields beside those of v1.0 (D3).

    Where both versions have a field of one name, as a skill or a security scheme, it holds what either knows of it. A
    card that declares no v0.3 interface stays as v1.0 has it.
    """
    if not any(is_legacy_version(interface.protocol_version) for interface in card.supported_interfaces):
        return document_v1(card)
    return _settled(_beside(MessageToDict(card), _compat(card).model_dump(mode="json", exclude_none=True)))


def card_v03(card: AgentCard) -> v03.AgentCard:
    """Return the card in v0.3's type, exactly as a v0.3 client reads `document`."""
    return v03.AgentCard.model_validate(document(card))


def canonical_json(document: Any) -> bytes:
    """Return the document's bytes: the same from every process, so that caches know them again (RFC 8785)."""
    return canonicalize(document).encode()


def _settled(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document as it is read from its bytes: protobuf's Struct makes 1.0 of an extension's 1."""
    settled: dict[str, Any] = json.loads(canonical_json(document))
    return settled


def _compat(card: AgentCard) -> v03.AgentCard:
    compat = conversions.to_compat_agent_card(card)
    main = v03.AgentInterface(transport=compat.preferred_transport or BINDINGS[0], url=compat.url)
    compat.protocol_version = _V03
    # The SDK leaves the main one out; v0.3 wants it among them (v0.3 spec, 5.5: "SHOULD include an entry matching").
    compat.additional_interfaces = [main, *(compat.additional_interfaces or [])]
    # What is off goes without saying.
    compat.supports_authenticated_extended_card = compat.supports_authenticated_extended_card or None
    return compat


def _beside(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return both, where our value wins; lists are of the same things in the same order, and joined by their place."""
    joined = dict(ours)
    for name, value in theirs.items():
        own = joined.get(name)
        if isinstance(own, dict) and isinstance(value, dict):
            joined[name] = _beside(own, value)
        elif isinstance(own, list) and isinstance(value, list):
            joined[name] = [
                _beside(mine, its) if isinstance(mine, dict) and isinstance(its, dict) else mine
                for mine, its in zip(own, value, strict=True)
            ]
        else:
            joined.setdefault(name, value)
    return joined


def _url(url: str, binding: str) -> str:
    """Return where the binding is spoken: REST appends its paths, and a client may do so to a trailing slash too."""
    return url.rstrip("/") if binding == "HTTP+JSON" else url


def _with_aions(own: Sequence[AgentExtension]) -> list[AgentExtension]:
    """Return what the agent declares, and before it Aion's extensions, which every agent takes; its own word wins."""
    declared = {extension.uri for extension in own}
    return [*(extension for extension in AION_EXTENSIONS if extension.uri not in declared), *own]


def _tagged(skills: Sequence[AgentSkill]) -> list[AgentSkill]:
    tagged = []
    for skill in skills:
        copy = AgentSkill()
        copy.CopyFrom(skill)
        copy.tags.extend([] if skill.tags else [skill.id])
        tagged.append(copy)
    return tagged
