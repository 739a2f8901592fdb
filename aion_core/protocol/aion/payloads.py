"""The payloads of the Aion extensions, as their schemas have them. Pure.

Names are camelCase on the wire; snake_case is read too. What a payload has beyond its schema is left aside. Of the
distribution's payload, which differs between clients, only the types are insisted on.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Id = Annotated[str, Field(min_length=1)]
Trajectory = Literal["direct-message", "reply", "conversation", "timeline"]
"""How a message reaches, or is to reach, its readers."""


class ExtensionPayload(BaseModel):
    """Whatever stands under an extension's URI."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def as_json(self) -> dict[str, Any]:
        """Return the payload in the wire's names, without what was not given."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


# ── Who, and through what: the distribution, on the request ──────────────────────────────────────────────────────────


class Identity(ExtensionPayload):
    """Who the agent is in a network: `principal` in Aion's, `service` in that of the distribution."""

    kind: str = ""
    id: str = ""
    identity_network: str | None = None
    display_name: str | None = None
    user_name: str | None = None


class Channel(ExtensionPayload):
    """The distribution itself."""

    id: str | None = None
    endpoint_type: str | None = None
    """The network that the request comes from, such as Slack or Telegram."""
    identities: tuple[Identity, ...] = ()


class Distribution(ExtensionPayload):
    """The distribution extension's payload."""

    sender_id: str | None = None
    """Who wrote, in the source network."""
    caller_id: str | None = None
    """Who calls, in Aion."""
    distribution: Channel = Channel()

    def identity(self) -> Identity | None:
        """Return the agent's own identity: the principal, else the service, else whichever there is."""
        ranks = ("principal", "agent", "service", "external")
        given = [identity for identity in self.distribution.identities if identity.id]
        known = sorted((each for each in given if each.kind in ranks), key=lambda each: ranks.index(each.kind))
        return next(iter([*known, *given]), None)


# ── What happened: events, on the message ────────────────────────────────────────────────────────────────────────────


class EventEnvelope(ExtensionPayload):
    """What the message's metadata say of an event, in CloudEvents' names."""

    type: Id
    source: str = ""
    id: str = ""


class EventPayload(ExtensionPayload):
    """What every event in a source network has."""

    user_id: Id
    """Who did it."""
    context_id: Id
    """Where: a room, a channel, a thread."""
    parent_context_id: str | None = None
    """What that is part of, such as a thread's channel."""


class MessageEvent(EventPayload):
    """Somebody wrote."""

    message_id: Id
    trajectory: Trajectory
    reply_to_message_id: str | None = None


class ReactionEvent(EventPayload):
    """Somebody reacted to a message, or no longer does."""

    message_id: Id
    reaction_key: Id
    action: Id
    """`added` or `removed`."""
    display_value: str | None = None
    is_custom: bool | None = None


class CommandEvent(EventPayload):
    """Somebody gave a command."""

    command: Id
    arguments: str | None = None
    invocation_id: str | None = None


class CardActionEvent(EventPayload):
    """Somebody used a card that the agent had sent."""

    action_id: Id


class SourceEvent(ExtensionPayload):
    """The event as its network had it."""

    provider: Id
    event: Mapping[str, Any]


# ── Which trace it belongs to: traceability, on the request ──────────────────────────────────────────────────────────


class TraceStateEntry(ExtensionPayload):
    """One vendor's entry."""

    key: Id
    value: str


class Traceability(ExtensionPayload):
    """A W3C trace context, https://www.w3.org/TR/trace-context/."""

    traceparent: str | None = None
    tracestate: tuple[TraceStateEntry, ...] | None = None
    baggage: Mapping[str, str] | None = None


# ── What a distribution is to do: actions, in what the agent says ────────────────────────────────────────────────────


class MessageAction(ExtensionPayload):
    """Where a message goes."""

    trajectory: Trajectory
    context_id: Id
    parent_context_id: str | None = None
    user_id: str | None = None
    """Required where the trajectory is `direct-message`."""
    reply_to_message_id: str | None = None
    """Required where it is `reply`."""


class ReactionAction(ExtensionPayload):
    """A reaction to a message of the source network."""

    context_id: Id
    message_id: Id
    reaction_key: Id
    operation: Literal["add", "remove"]
