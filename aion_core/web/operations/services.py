"""Services of one agent that its operations use."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.service import TaskService
from aion_core.errors import PushNotSupported
from aion_core.protocol.card import with_input_modes
from aion_core.protocol.media_types import Modes, modes_of
from aion_core.protocol.types import AgentCard
from aion_core.push.configs import PushRegistry
from aion_core.web.cards.extended import ExtendedCardPublisher
from aion_core.web.cards.publication import InputModes
from aion_core.web.stream_limits import StreamLimits


@dataclass(frozen=True)
class AgentServices:
    """Services of one agent that its operations use. The agent's capabilities are in the public card."""

    tasks: TaskService
    lister: TaskLister
    conversations: Conversations
    card: AgentCard
    extended_card: ExtendedCardPublisher | None = None
    registry: PushRegistry | None = None
    stream_limits: StreamLimits | None = None
    input_modes: InputModes = tuple
    no_push: str = ""
    """Error message for requests about push notifications if this process sends none, instead of the usual message."""
    _modes: Callable[[tuple[str, ...]], Modes] = field(init=False)
    """Function from the value of `input_modes` to the media types in the agent's card."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_modes", lru_cache(lambda known: modes_of(with_input_modes(self.card, known))))

    def modes_of_first_messages(self) -> Modes:
        """Return the media types in the agent's card, for a message that starts a turn."""
        return self._modes(self.input_modes())

    def modes_of_messages(self) -> Modes:
        """Return the media types of every message: those in the card, unless the server has derived the input types.

        Types derived from the agent's input do not apply to an answer: a question may be answered in words, although the
        agent's input is data.
        """
        known = self.input_modes()
        return Modes(gives=self._modes(known).gives) if known else self._modes(known)

    @property
    def push(self) -> PushRegistry:
        """Registry of push notification configs. Raises PushNotSupported if the agent sends no push notifications."""
        if self.registry is None or not self.card.capabilities.push_notifications:
            raise PushNotSupported(self.no_push or "This agent sends no push notifications; see its card.")
        return self.registry
