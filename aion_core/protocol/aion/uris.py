"""What the Aion extensions, their events and their schemas are called on the wire. Pure.

Source: the extensions' own pages, which their URIs are the addresses of, and what Aion's clients send.
"""

from typing import Literal

from a2a.types.a2a_pb2 import AgentExtension

EventKind = Literal["message", "reaction", "command", "card_action"]
"""What a turn can be about (REQUIREMENTS section 3, AionContext)."""

_AION = "https://docs.aion.to/a2a/extensions/aion"

DISTRIBUTION = f"{_AION}/distribution/1.0.0"
MESSAGING = f"{_AION}/distribution/messaging/1.0.0"
CARDS = f"{_AION}/distribution/cards/1.0.0"
EVENT = f"{_AION}/event/1.0.0"
TRACEABILITY = f"{_AION}/traceability/1.0.0"

EVENT_KINDS: dict[str, EventKind] = {
    "to.aion.distribution.message.1.0.0": "message",
    "to.aion.distribution.reaction.1.0.0": "reaction",
    "to.aion.distribution.command.1.0.0": "command",
    "to.aion.distribution.card-action.1.0.0": "card_action",
}
"""What an event is about, by its `type`."""

PAYLOAD_SCHEMAS: dict[EventKind, str] = {
    "message": f"{MESSAGING}#MessageEventPayload",
    "reaction": f"{MESSAGING}#ReactionEventPayload",
    "command": f"{MESSAGING}#CommandEventPayload",
    "card_action": f"{CARDS}#CardActionEventPayload",
}
"""The schema that the data part with the event's payload names."""

SOURCE_SCHEMA = f"{MESSAGING}#SourceSystemEventPayload"
"""That of the data part with the event as the source network had it."""

MESSAGE_ACTION_SCHEMA = f"{MESSAGING}#MessageActionPayload"
REACTION_ACTION_SCHEMA = f"{MESSAGING}#ReactionActionPayload"
"""Those of what a distribution is to do: send a message somewhere, react to one."""

AION_EXTENSIONS = (
    AgentExtension(uri=DISTRIBUTION, description="Reads through which distribution, and from whom, a request comes."),
    AgentExtension(uri=EVENT, description="Takes events: a message's metadata name one, a data part is its payload."),
    AgentExtension(uri=MESSAGING, description="Takes messages, reactions and commands, and says where answers go."),
    AgentExtension(uri=CARDS, description="Takes the actions of cards."),
    AgentExtension(uri=TRACEABILITY, description="Reads a W3C trace context."),
)
"""What a card says of them: each is optional, and there for every agent."""


def older(uri: str) -> str:
    """Return how the first clients wrote the URI; it is only read."""
    return uri.replace("/a2a/extensions/", "/extensions/")
