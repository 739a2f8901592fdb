"""URIs of the Aion extensions, and of the schemas of their payloads. Pure."""

from functools import cache
from typing import Literal

from aion_core.protocol.types import AgentExtension

EventKind = Literal["message", "reaction", "command", "card_action"]
"""Kind of an event of a source network. Such an event starts a turn."""

_AION = "https://docs.aion.to/a2a/extensions/aion"
DISTRIBUTION = f"{_AION}/distribution/1.0.0"
MESSAGING = f"{_AION}/distribution/messaging/1.0.0"
CARDS = f"{_AION}/distribution/cards/1.0.0"
EVENT = f"{_AION}/event/1.0.0"
TRACEABILITY = f"{_AION}/traceability/1.0.0"
INPUT = f"{_AION}/input/1.0.0"
"""Extension whose params state the JSON Schema of the data that starts a turn. Requests carry nothing of it."""

EVENT_KINDS: dict[str, EventKind] = {
    "to.aion.distribution.message.1.0.0": "message",
    "to.aion.distribution.reaction.1.0.0": "reaction",
    "to.aion.distribution.command.1.0.0": "command",
    "to.aion.distribution.card-action.1.0.0": "card_action",
}
"""Kinds of events by the `type` in the event's envelope."""

PAYLOAD_SCHEMAS: dict[EventKind, str] = {
    "message": f"{MESSAGING}#MessageEventPayload",
    "reaction": f"{MESSAGING}#ReactionEventPayload",
    "command": f"{MESSAGING}#CommandEventPayload",
    "card_action": f"{CARDS}#CardActionEventPayload",
}
"""Schema in the metadata of the data part with an event's payload, by the kind of event."""

SOURCE_SCHEMA = f"{MESSAGING}#SourceSystemEventPayload"
"""Schema of the data part with the original event of the source network."""

MESSAGE_ACTION_SCHEMA = f"{MESSAGING}#MessageActionPayload"
REACTION_ACTION_SCHEMA = f"{MESSAGING}#ReactionActionPayload"
"""Schemas of the actions for a distribution: to send a message, and to react to a message."""

AION_EXTENSIONS = (
    AgentExtension(
        uri=DISTRIBUTION, description="Tells the agent which distribution a request came through, and from whom."
    ),
    AgentExtension(
        uri=EVENT,
        description="Accepts events. Name the event in the message's metadata and put its payload in a data part.",
    ),
    AgentExtension(uri=MESSAGING, description="Accepts messages, reactions and commands, and says where answers go."),
    AgentExtension(uri=CARDS, description="Accepts actions on cards."),
    AgentExtension(uri=TRACEABILITY, description="Reads a W3C trace context."),
)
"""Aion's extensions in the card of an agent. All of them are optional for clients."""


def is_aion(uri: str) -> bool:
    """Return True for the URI of one of Aion's extensions whose payloads the server reads."""
    return any(uri == extension.uri for extension in AION_EXTENSIONS)


@cache
def older(uri: str) -> str:
    """Return the older form of an extension's URI. Early clients use this form in requests."""
    return uri.replace("/a2a/extensions/", "/extensions/")
