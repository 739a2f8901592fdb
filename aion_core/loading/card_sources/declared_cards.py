"""An `AgentCard` of the a2a-sdk in the agent's module."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from aion_core.protocol.card import as_card, is_card
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


def _cards(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in values.items() if is_card(value)}
