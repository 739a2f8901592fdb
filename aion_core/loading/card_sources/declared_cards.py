"""An `AgentCard` of the a2a-sdk in the agent's module."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from aion_core.protocol.types import AgentCard

USUAL_NAMES = ("agent_card", "public_agent_card", "card", "AGENT_CARD", "CARD")
"""Names of the public card in a module with several cards, such as an extended one."""


def card_of_module(module: ModuleType | None) -> AgentCard:
    """Return the module's only AgentCard, or the one with a usual name; an empty card if none can be chosen."""
    cards = dict(_cards(vars(module) if module is not None else {}))
    once = {id(value): name for name, value in cards.items()}
    if len(once) == 1:
        return as_card(next(iter(cards.values())))
    return as_card(next((cards[name] for name in USUAL_NAMES if name in cards), None))


def is_card(value: object) -> bool:
    """Return True for an AgentCard of A2A 1.0 or 0.3."""
    return isinstance(value, AgentCard) or (
        type(value).__name__ == "AgentCard" and type(value).__module__.startswith("a2a.compat.")
    )


def as_card(value: Any) -> AgentCard:
    """Return an AgentCard of either version as one of 1.0; an empty card for None."""
    if value is None or isinstance(value, AgentCard):
        return value or AgentCard()
    # Import late: only an author with a card of 0.3 needs the models of 0.3.
    from a2a.compat.v0_3.conversions import to_core_agent_card

    return to_core_agent_card(value)


def _cards(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in values.items() if is_card(value)}
