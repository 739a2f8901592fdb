"""Payloads of the Aion extensions. Pure.

JSON has camelCase names; snake_case is also accepted. Unknown fields are ignored. In the distribution's payload every
field is optional, since clients differ.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Id = Annotated[str, Field(min_length=1)]
Trajectory = Literal["direct-message", "reply", "conversation", "timeline"]
"""Path of a message to its readers."""


class ExtensionPayload(BaseModel):
    """Base of the payloads."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def as_json(self) -> dict[str, Any]:
        """Return the payload's JSON, without missing fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


# ── Distribution, in the request's metadata ──────────────────────────────────────────────────────────────────────────


class Identity(ExtensionPayload):
    """Identity of the agent in a network: `principal` in Aion, `service` in the distribution's network."""

    kind: str = ""
    id: str = ""
    identity_network: str | None = None
    display_name: str | None = None
    user_name: str | None = None


class Channel(ExtensionPayload):
    """Distribution channel."""

    id: str | None = None
    endpoint_type: str | None = None
    """Source network of the request, such as Slack or Telegram."""
    identities: tuple[Identity, ...] = ()


class Distribution(ExtensionPayload):
    """Payload of the distribution extension."""

    sender_id: str | None = None
    """Id of the author in the source network."""
    caller_id: str | None = None
    """Id of the caller in Aion."""
    distribution: Channel = Channel()

    def identity(self) -> Identity | None:
        """Return the agent's own identity: the principal, else the service, else any other one."""
        ranks = ("principal", "agent", "service", "external")
        given = [identity for identity in self.distribution.identities if identity.id]
        known = sorted((each for each in given if each.kind in ranks), key=lambda each: ranks.index(each.kind))
        return next(iter([*known, *given]), None)


# ── Events, in the message ───────────────────────────────────────────────────────────────────────────────────────────


class EventEnvelope(ExtensionPayload):
    """Description of an event in the message's metadata, with CloudEvents' names."""

    type: Id
    source: str = ""
    id: str = ""


class EventPayload(ExtensionPayload):
    """Common fields of the events of a source network."""

    user_id: Id
    """Id of the actor."""
    context_id: Id
    """Room, channel or thread."""
    parent_context_id: str | None = None
    """Parent of the context, such as a thread's channel."""


class MessageEvent(EventPayload):
    """New message."""

    message_id: Id
    trajectory: Trajectory
    reply_to_message_id: str | None = None


class ReactionEvent(EventPayload):
    """Added or removed reaction to a message."""

    message_id: Id
    reaction_key: Id
    action: Id
    """`added` or `removed`."""
    display_value: str | None = None
    is_custom: bool | None = None


class CommandEvent(EventPayload):
    """Command from a user."""

    command: Id
    arguments: str | None = None
    invocation_id: str | None = None


class CardActionEvent(EventPayload):
    """Action on a card from the agent."""

    action_id: Id


class SourceEvent(ExtensionPayload):
    """Original event of the source network."""

    provider: Id
    event: Mapping[str, Any]


# ── Traceability, in the request's metadata ──────────────────────────────────────────────────────────────────────────


class TraceStateEntry(ExtensionPayload):
    """Entry of one vendor in `tracestate`."""

    key: Id
    value: str


class Traceability(ExtensionPayload):
    """W3C trace context, https://www.w3.org/TR/trace-context/."""

    traceparent: str | None = None
    tracestate: tuple[TraceStateEntry, ...] | None = None
    baggage: Mapping[str, str] | None = None


# ── Actions for a distribution, in the agent's messages ──────────────────────────────────────────────────────────────


class MessageAction(ExtensionPayload):
    """Target of a message."""

    trajectory: Trajectory
    context_id: Id
    parent_context_id: str | None = None
    user_id: str | None = None
    """Required for the trajectory `direct-message`."""
    reply_to_message_id: str | None = None
    """Required for the trajectory `reply`."""


class ReactionAction(ExtensionPayload):
    """Reaction to a message of the source network."""

    context_id: Id
    message_id: Id
    reaction_key: Id
    operation: Literal["add", "remove"]
