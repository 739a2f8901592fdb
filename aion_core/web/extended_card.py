"""An agent's extended card as one caller gets it: with the skills that they may use, and no others (spec 3.1.11)."""

from collections.abc import Callable, Collection
from functools import lru_cache

from aion_core.protocol.types import AgentCard

KEPT = 64
"""How many ways of the card are kept: each is another choice of skills, signed."""


def unsigned(card: AgentCard) -> AgentCard:
    """Return the card as it is."""
    return card


class ExtendedCard:
    """The card with everything in it, and what signs what is shown of it."""

    def __init__(self, card: AgentCard, sign: Callable[[AgentCard], AgentCard] = unsigned) -> None:
        self._card, self._sign = card, sign
        self._guarded = frozenset(skill.id for skill in card.skills if skill.security_requirements)
        self._shown = lru_cache(KEPT)(self._with_skills)
        self._shown(self._guarded)

    def for_caller(self, skills: Collection[str] | None) -> AgentCard:
        """Return the card for a caller who may use these of the guarded skills; None for all."""
        return self._shown(self._guarded if skills is None else self._guarded.intersection(skills))

    def _with_skills(self, allowed: frozenset[str]) -> AgentCard:
        card = AgentCard()
        card.CopyFrom(self._card)
        del card.skills[:]
        card.skills.extend(skill for skill in self._card.skills if skill.id not in self._guarded or skill.id in allowed)
        return self._sign(card)
