"""Agent card for A2A clients of v1.0 and v0.3 (A2A 8).

A card has v1.0's type. Clients download one of two documents: the card of v1.0, or the same card with the fields of
v0.3 added (`card_v03`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from a2a.utils._jcs import canonicalize
from google.protobuf.json_format import MessageToDict
from msgspec import Struct

from aion_core.protocol.aion.extensions import AION_EXTENSIONS
from aion_core.protocol.media_types import Modes
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
"""Protocol bindings of an agent in order of preference (A2A 8.3.1)."""
VERSIONS = ("1.0", "0.3")
"""Protocol versions of an agent, all served on the same URL."""

KEYS_PATH = "/.well-known/jwks.json"
"""URL path of the public keys for card signatures."""


class AgentDescription(Struct, frozen=True):
    """Texts of a card that describe the agent to people."""

    name: str
    text: str
    """Description; "" for a sentence that says that there is none."""
    version: str
    documentation_url: str = ""
    icon_url: str = ""
    provider: AgentProvider | None = None


class CardCapabilities(Struct, frozen=True):
    """Optional parts of A2A that the agent has."""

    streaming: bool = True
    push_notifications: bool = False
    extended: bool = False
    """True if callers get an extended card."""
    extensions: Sequence[AgentExtension] = ()
    aion_extensions: bool = False
    """True to declare Aion's extensions before the agent's own extensions."""


class CardSecurity(Struct, frozen=True):
    """Authentication schemes of the agent, and the requirements that callers have to fulfil."""

    schemes: Mapping[str, SecurityScheme] | None = None
    requirements: Sequence[SecurityRequirement] = ()


def build_card(
    described: AgentDescription,
    url: str,
    *,
    modes: Modes,
    skills: Sequence[AgentSkill] = (),
    examples: Sequence[str] = (),
    capabilities: CardCapabilities | None = None,
    security: CardSecurity | None = None,
) -> AgentCard:
    """Build the card of an agent at `url`, with both versions and both bindings of the protocol.

    A card needs a skill, and a skill needs a tag. The default skill has the agent's name and description, and the
    `examples`. The default tag is the skill's id.
    """
    capabilities, security = capabilities or CardCapabilities(), security or CardSecurity()
    name, text, extensions = described.name, described.text or no_description(described.name), capabilities.extensions
    return AgentCard(
        name=name,
        description=text,
        version=described.version,
        supported_interfaces=[
            AgentInterface(url=_url(url, binding), protocol_binding=binding, protocol_version=protocol_version)
            for protocol_version in VERSIONS
            for binding in BINDINGS
        ],
        provider=described.provider,
        # Leave a missing URL unset, because the card's signature distinguishes an empty field from a missing field.
        documentation_url=described.documentation_url or None,
        icon_url=described.icon_url or None,
        capabilities=AgentCapabilities(
            streaming=capabilities.streaming,
            push_notifications=capabilities.push_notifications,
            extended_agent_card=capabilities.extended,
            extensions=_with_aions(extensions) if capabilities.aion_extensions else extensions,
        ),
        security_schemes=security.schemes,
        security_requirements=security.requirements,
        default_input_modes=modes.takes,
        default_output_modes=modes.gives,
        skills=_tagged(skills)
        or [AgentSkill(id="chat", name=name, description=text, tags=["chat"], examples=examples)],
    )


def no_description(name: str) -> str:
    """Return the description of an agent that nobody has described. A2A requires one."""
    return f"{name} has no description."


def extend_card(
    card: AgentCard, *, name: str = "", description: str = "", version: str = "", skills: Sequence[AgentSkill] = ()
) -> AgentCard:
    """Build the extended card from the public card. These values replace the card's; these skills are appended."""
    extended = AgentCard()
    extended.CopyFrom(card)
    extended.name = name or card.name
    extended.description = description or card.description
    extended.version = version or card.version
    extended.skills.extend(_tagged(skills))
    return extended


def with_url(card: AgentCard, url: str) -> AgentCard:
    """Return a copy of the card for the agent at `url`, which ends with a slash."""
    copy = AgentCard()
    copy.CopyFrom(card)
    for interface in copy.supported_interfaces:
        interface.url = _url(url, interface.protocol_binding)
    return copy


def with_skill_modes(card: AgentCard) -> AgentCard:
    """Return the card with the default media types in each skill without its own: pydantic-ai's client requires them."""
    copy = AgentCard()
    copy.CopyFrom(card)
    for skill in copy.skills:
        skill.input_modes.extend([] if skill.input_modes else card.default_input_modes)
        skill.output_modes.extend([] if skill.output_modes else card.default_output_modes)
    return copy


def first_of(cards: Iterable[AgentCard]) -> AgentCard:
    """Return a card with each descriptive field of the first of these cards that has it, and with all extensions.

    URLs, security and signatures are left out, because only the server knows its own.
    """
    found, extensions = AgentCard(), dict[str, AgentExtension]()
    for card in cards:
        known = {field.name for field, _ in found.ListFields()}
        for field, value in card.ListFields():
            if field.name in _DESCRIPTIVE - known:
                found.MergeFrom(AgentCard(**{field.name: value}))
        extensions = {**{each.uri: each for each in card.capabilities.extensions}, **extensions}
    found.capabilities.extensions.extend(extensions.values())
    for skill in found.skills:
        skill.ClearField("security_requirements")
    return found


_DESCRIPTIVE = frozenset(
    {
        "name",
        "description",
        "version",
        "provider",
        "documentation_url",
        "icon_url",
        "default_input_modes",
        "default_output_modes",
        "skills",
    }
)
"""Fields of a card that describe the agent itself, wherever it is served."""


def is_card(value: object) -> bool:
    """Return True for an AgentCard of the SDK, of A2A 1.0 or 0.3."""
    return isinstance(value, AgentCard) or (
        type(value).__name__ == "AgentCard" and type(value).__module__.startswith("a2a.compat.")
    )


def as_card(value: Any) -> AgentCard:
    """Return an AgentCard of either version as one of 1.0; an empty card for None."""
    if value is None or isinstance(value, AgentCard):
        return value or AgentCard()
    # Import late: the models of 0.3 take long to import.
    from a2a.compat.v0_3.conversions import to_core_agent_card

    return to_core_agent_card(value)


def document_v1(card: AgentCard) -> dict[str, Any]:
    """Return the card as JSON for v1.0. Only required fields and set fields are included (A2A 5.7)."""
    return settled(MessageToDict(card))


def canonical_json(document: Any) -> bytes:
    """Return a document as canonical JSON (RFC 8785): the same bytes in every process, for caches and signatures."""
    return canonicalize(document).encode()


def settled(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with whole numbers as integers, by canonical JSON: protobuf's Struct has changed 1 to 1.0."""
    settled: dict[str, Any] = json.loads(canonical_json(document))
    return settled


def _url(url: str, binding: str) -> str:
    """Return the agent's URL for a binding. For HTTP+JSON it has no slash at its end, because clients append paths."""
    return url.rstrip("/") if binding == "HTTP+JSON" else url


def _with_aions(own: Sequence[AgentExtension]) -> list[AgentExtension]:
    """Return Aion's extensions, then the agent's own. An own extension replaces the one of Aion with the same URI."""
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
