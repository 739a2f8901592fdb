"""Payloads of the Aion extensions. Pure.

request metadata     distribution, traceability
message metadata     envelope of an event: its type, its source, its id
data parts           payload of an event, and actions for a distribution, by the schema in the part's metadata

The JSON of a payload has camelCase names. Aion also accepts snake_case names, and ignores unknown fields. All fields of
the distribution's payload are optional, because clients differ.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Id = Annotated[str, Field(min_length=1)]
Trajectory = Literal["direct-message", "reply", "conversation", "timeline"]
"""Path of a message to its readers in a network, such as a direct message or a reply."""


class ExtensionPayload(BaseModel):
    """Base class of the payloads of Aion extensions."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def as_json(self) -> dict[str, Any]:
        """Return the payload as JSON without the fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Identity(ExtensionPayload):
    """Identity of the agent. Its kind is `principal` in Aion, and `service` in the distribution's network."""

    kind: str = ""
    id: str = ""
    identity_network: str | None = None
    display_name: str | None = None
    user_name: str | None = None


class Channel(ExtensionPayload):
    """Connection of an agent to a network such as Slack, with the agent's identities there."""

    id: str | None = None
    endpoint_type: str | None = None
    """Source network of the request, such as Slack or Telegram."""
    identities: tuple[Identity, ...] = ()


class Distribution(ExtensionPayload):
    """Payload of the distribution extension: sender, caller and channel of a request."""

    sender_id: str | None = None
    """Id of the author in the source network."""
    caller_id: str | None = None
    """Id of the request's caller in Aion."""
    distribution: Channel = Channel()

    def identity(self) -> Identity | None:
        """Return the agent's own identity: the principal, else the agent or service, else None."""
        ranks = ("principal", "agent", "service", "external")
        given = [identity for identity in self.distribution.identities if identity.id]
        known = sorted((each for each in given if each.kind in ranks), key=lambda each: ranks.index(each.kind))
        return next(iter([*known, *given]), None)


class EventEnvelope(ExtensionPayload):
    """Description of an event in the message's metadata, with the field names of CloudEvents."""

    type: Id
    source: str = ""
    id: str = ""


class EventPayload(ExtensionPayload):
    """Base class of the payloads of a source network's events, with the common fields."""

    user_id: Id
    """Id of the user who caused the event."""
    context_id: Id
    """Id of the room, channel or thread of the event."""
    parent_context_id: str | None = None
    """Id of the parent of the context, such as the channel of a thread."""


class MessageEvent(EventPayload):
    """Event of a new message in the source network."""

    message_id: Id
    trajectory: Trajectory
    reply_to_message_id: str | None = None


class ReactionEvent(EventPayload):
    """Event of an added or removed reaction to a message."""

    message_id: Id
    reaction_key: Id
    action: Id
    """`added` or `removed`."""
    display_value: str | None = None
    is_custom: bool | None = None


class CommandEvent(EventPayload):
    """Event of a command from a user."""

    command: Id
    arguments: str | None = None
    invocation_id: str | None = None


class CardActionEvent(EventPayload):
    """Event of a user's action on a card that the agent has sent."""

    action_id: Id


class SourceEvent(ExtensionPayload):
    """Original event of the source network, in that network's own format."""

    provider: Id
    event: Mapping[str, Any]


class TraceStateEntry(ExtensionPayload):
    """Entry of one vendor in the `tracestate` of a trace context."""

    key: Id
    value: str


class Traceability(ExtensionPayload):
    """W3C trace context, https://www.w3.org/TR/trace-context/."""

    traceparent: str | None = None
    tracestate: tuple[TraceStateEntry, ...] | None = None
    baggage: Mapping[str, str] | None = None


class MessageAction(ExtensionPayload):
    """Target of an agent's message in the network: its trajectory and conversation."""

    trajectory: Trajectory
    context_id: Id
    parent_context_id: str | None = None
    user_id: str | None = None
    """Id of the recipient, required for the trajectory `direct-message`."""
    reply_to_message_id: str | None = None
    """Id of the original message, required for the trajectory `reply`."""


class ReactionAction(ExtensionPayload):
    """Reaction of the agent to a message of the source network."""

    context_id: Id
    message_id: Id
    reaction_key: Id
    operation: Literal["add", "remove"]
