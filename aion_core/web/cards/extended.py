"""Extended card of an agent, which depends on its caller."""

from collections.abc import Collection
from functools import lru_cache

from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.protocol.types import AgentCard
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.cards.publication import CardPublisher

CACHED_EXTENDED_CARDS = 64
"""Maximum number of cached extended cards, one for each set of allowed skills and base URL."""


class ExtendedCardPublisher:
    """Publisher of an agent's extended card. Each caller's card contains only the caller's skills."""

    def __init__(self, cards: AgentCards, publisher: CardPublisher, prefix: str) -> None:
        """`prefix` is the path of the agent below the base URL."""
        self._cards, self._publisher, self._prefix = cards, publisher, prefix
        skills = self._card(UNKNOWN).skills
        self._restricted = frozenset(skill.id for skill in skills if skill.security_requirements)
        self._published = lru_cache(CACHED_EXTENDED_CARDS)(self._publish)
        # Publish a card now, so that an error in the card or its signature is raised at the start.
        self._published(self._restricted, publisher.base_url, UNKNOWN)

    async def for_caller(self, skills: Collection[str] | None, entrypoint_url: str = "") -> AgentCard:
        """Return the signed extended card for a caller and the HTTP entry point of the request.

        `skills` has the restricted skills that this caller may use; None allows all.
        """
        allowed = self._restricted if skills is None else self._restricted.intersection(skills)
        profile = await self._cards.when_known()
        return self._published(allowed, self._publisher.base_url_for(entrypoint_url), profile)

    def _publish(self, allowed: frozenset[str], base_url: str, profile: AgentProfile) -> AgentCard:
        card = AgentCard()
        card.CopyFrom(self._card(profile))
        skills = list(card.skills)
        del card.skills[:]
        card.skills.extend(skill for skill in skills if skill.id not in self._restricted or skill.id in allowed)
        return self._publisher.publish(card, base_url, self._prefix)

    def _card(self, profile: AgentProfile) -> AgentCard:
        return self._cards.extended_of(profile) or AgentCard()
