"""Agent card with the fields of A2A v0.3 in addition to those of v1.0.

The import builds the SDK's models of v0.3, which takes a fifteenth of a cold start. So import this module only when a
card is written.
"""

from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.versions import is_legacy_version
from google.protobuf.json_format import MessageToDict

from aion_core.protocol.card import BINDINGS, document_v1, settled
from aion_core.protocol.types import AgentCard

_V03 = "0.3.0"
"""Protocol version in a v0.3 card. It has three numbers, unlike the versions in v1.0's interfaces."""


def document(card: AgentCard) -> dict[str, Any]:
    """Return the card as JSON for clients of both versions, with the fields of v1.0 and v0.3.

    An object that exists in both versions, such as a skill or a security scheme, has the fields of both. A card without
    a v0.3 interface has only the fields of v1.0.
    """
    if not any(is_legacy_version(interface.protocol_version) for interface in card.supported_interfaces):
        return document_v1(card)
    return settled(_merged(MessageToDict(card), _compat(card).model_dump(mode="json", exclude_none=True)))


def card_v03(card: AgentCard) -> v03.AgentCard:
    """Convert the card to v0.3's type. It has the same content as the JSON of `document`."""
    return v03.AgentCard.model_validate(document(card))


def _compat(card: AgentCard) -> v03.AgentCard:
    compat = conversions.to_compat_agent_card(card)
    main = v03.AgentInterface(transport=compat.preferred_transport or BINDINGS[0], url=compat.url)
    compat.protocol_version = _V03
    # List the main URL and transport here too, as A2A v0.3 5.5 recommends, because the SDK omits them.
    compat.additional_interfaces = [main, *(compat.additional_interfaces or [])]
    # Omit `supportsAuthenticatedExtendedCard: false`, because False is the default value.
    compat.supports_authenticated_extended_card = compat.supports_authenticated_extended_card or None
    return compat


def _merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Merge two JSON objects. In a conflict `ours` wins. Lists must have corresponding items in the same order."""
    joined = dict(ours)
    for name, value in theirs.items():
        own = joined.get(name)
        if isinstance(own, dict) and isinstance(value, dict):
            joined[name] = _merged(own, value)
        elif isinstance(own, list) and isinstance(value, list):
            joined[name] = [
                _merged(mine, its) if isinstance(mine, dict) and isinstance(its, dict) else mine
                for mine, its in zip(own, value, strict=True)
            ]
        else:
            joined.setdefault(name, value)
    return joined
