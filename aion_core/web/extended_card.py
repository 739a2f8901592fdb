"""An agent's extended card as one caller gets it: with the skills that they may use, and no others (spec 3.1.11)."""

from collections.abc import Collection
from functools import lru_cache

from aion_core.protocol.types import AgentCard
from aion_core.web.showing import Showing

KEPT = 64
"""How many ways of the card are kept: each is another choice of skills, or another address, signed."""


class ExtendedCard:
    """The card with everything in it, and how what is shown of it is shown."""

    def __init__(self, card: AgentCard, showing: Showing) -> None:
        self._card, self._showing = card, showing
        self._guarded = frozenset(skill.id for skill in card.skills if skill.security_requirements)
        self._shown = lru_cache(KEPT)(self._with_skills)
        self._shown(self._guarded, showing.base_url)

    def for_caller(self, skills: Collection[str] | None, front: str = "") -> AgentCard:
        """Return the card for a caller who may use these of the guarded skills, or all (None), and asks at this front."""
        allowed = self._guarded if skills is None else self._guarded.intersection(skills)
        return self._shown(allowed, self._showing.address(front))

    def _with_skills(self, allowed: frozenset[str], address: str) -> AgentCard:
        card = AgentCard()
        card.CopyFrom(self._card)
        del card.skills[:]
        card.skills.extend(skill for skill in self._card.skills if skill.id not in self._guarded or skill.id in allowed)
        return self._showing.shown(card, address)
