"""Services of one agent that its operations use."""

from dataclasses import dataclass

from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.service import TaskService
from aion_core.errors import PushNotSupported
from aion_core.protocol.types import AgentCard
from aion_core.push.configs import PushRegistry
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.cards.extended import ExtendedCardPublisher
from aion_core.web.stream_limits import StreamLimits


@dataclass(frozen=True)
class AgentServices:
    """Services of one agent that its operations use. The agent's capabilities are in the public card."""

    tasks: TaskService
    lister: TaskLister
    conversations: Conversations
    cards: AgentCards
    extended_card: ExtendedCardPublisher | None = None
    registry: PushRegistry | None = None
    stream_limits: StreamLimits | None = None
    reads_aion_extensions: bool = True
    no_push: str = ""
    """Error message for requests about push notifications if this process sends none, instead of the usual message."""

    @property
    def card(self) -> AgentCard:
        """Public card of the agent, with what its code says so far."""
        return self.cards.public

    @property
    def push(self) -> PushRegistry:
        """Registry of push notification configs. Raises PushNotSupported if the agent sends no push notifications."""
        if self.registry is None or not self.card.capabilities.push_notifications:
            raise PushNotSupported(self.no_push or "Push Notification is not supported by this agent; see its card.")
        return self.registry
