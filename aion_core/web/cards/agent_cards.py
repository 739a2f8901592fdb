"""Cards of one agent, with what its code says about it once the code is loaded."""

from collections.abc import Awaitable, Callable
from functools import lru_cache

from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.errors import ClientError, ContentTypeNotSupported, InvalidMessage
from aion_core.protocol.media_types import Modes, check_parts, modes_of
from aion_core.protocol.types import AgentCard, Message

PublicCard = Callable[[AgentProfile], AgentCard]
"""Function from what the agent's code says to the agent's public card."""

ExtendedCard = Callable[[AgentCard], AgentCard | None]
"""Function from the public card to the extended card; None for an agent without an extended card."""


async def _known_already() -> None:
    """Return at once: the agent's code says nothing that is not known yet."""


class AgentCards:
    """The public card and the extended card of an agent.

    Both may change once, when the agent's code is loaded.
    """

    def __init__(
        self,
        public: PublicCard,
        extended: ExtendedCard = lambda card: None,
        *,
        profile: Callable[[], AgentProfile] = lambda: UNKNOWN,
        known: Callable[[], Awaitable[None]] = _known_already,
    ) -> None:
        """`profile` returns what the agent's code says so far; `known` waits until the code was loaded or has failed."""
        self._profile, self._known = profile, known
        # A loaded agent has one profile, and before it was loaded another one.
        self._public = lru_cache(2)(public)
        self._extended = lru_cache(2)(lambda profile: extended(self._public(profile)))
        self._modes = lru_cache(2)(lambda profile: modes_of(self._public(profile)))

    @classmethod
    def of(cls, card: AgentCard, extended: AgentCard | None = None) -> "AgentCards":
        """Return cards that do not depend on the agent's code."""
        return cls(lambda profile: card, lambda public: extended)

    @property
    def public(self) -> AgentCard:
        """The public card, with what the agent's code says so far."""
        return self._public(self._profile())

    def public_of(self, profile: AgentProfile) -> AgentCard:
        """Return the public card with what the agent's code says in `profile`."""
        return self._public(profile)

    def extended_of(self, profile: AgentProfile) -> AgentCard | None:
        """Return the extended card with the skills of all callers, or None."""
        return self._extended(profile)

    async def when_known(self) -> AgentProfile:
        """Wait for the first attempt to load the agent's code, and return what the code says.

        So every process returns the same card, and the same ETag, from its first request on.
        """
        await self._known()
        return self._profile()

    @property
    def modes(self) -> Modes:
        """Media types to check every message against: input types only of aion.yaml, output types of the card.

        Input types that follow from the code hold for a message that starts a turn: see `start_refusals`.
        """
        profile = self._profile()
        takes = self._modes(UNKNOWN).takes if not profile.reads else ()
        return Modes(takes, self._modes(profile).gives)

    def start_refusals(self, message: Message) -> tuple[ClientError | None, ClientError | None]:
        """Return why the agent's code cannot start a turn with a message: in any context, and in a new context."""
        profile = self._profile()
        try:
            if profile.reads:
                skills = [mode for skill in self._public(profile).skills for mode in skill.input_modes]
                check_parts(message.parts, [*profile.reads, *skills])
        except ContentTypeNotSupported as error:
            return error, error
        if profile.refusal is None:
            return None, None
        return _error(profile.refusal(message, True)), _error(profile.refusal(message, False))


def _error(reason: str) -> ClientError | None:
    return InvalidMessage(reason, field="message.parts") if reason else None
