"""Extended card of an agent, which depends on its caller."""

from collections.abc import Collection
from functools import lru_cache

from aion_core.protocol.card import with_input_modes
from aion_core.protocol.types import AgentCard
from aion_core.web.cards.publication import CardPublisher, InputModes

CACHED_EXTENDED_CARDS = 64
"""Maximum number of cached extended cards, one for each set of allowed skills and base URL."""


class ExtendedCardPublisher:
    """Publisher of an agent's extended card. Each caller's card contains only the caller's skills."""

    def __init__(self, card: AgentCard, publisher: CardPublisher, input_modes: InputModes = tuple) -> None:
        self._card, self._publisher, self._input_modes = card, publisher, input_modes
        self._restricted = frozenset(skill.id for skill in card.skills if skill.security_requirements)
        self._published = lru_cache(CACHED_EXTENDED_CARDS)(self._publish)
        # Publish a card now, so that an error in the card or its signature is raised at the start.
        self._published(self._restricted, publisher.base_url, ())

    def for_caller(self, skills: Collection[str] | None, entrypoint_url: str = "") -> AgentCard:
        """Return the signed extended card for a caller and the HTTP entry point of the request.

        `skills` has the restricted skills that this caller may use; None allows all.
        """
        allowed = self._restricted if skills is None else self._restricted.intersection(skills)
        return self._published(allowed, self._publisher.base_url_for(entrypoint_url), self._input_modes())

    def _publish(self, allowed: frozenset[str], base_url: str, modes: tuple[str, ...]) -> AgentCard:
        card = AgentCard()
        card.CopyFrom(with_input_modes(self._card, modes))
        del card.skills[:]
        card.skills.extend(
            skill for skill in self._card.skills if skill.id not in self._restricted or skill.id in allowed
        )
        return self._publisher.publish(card, base_url)
