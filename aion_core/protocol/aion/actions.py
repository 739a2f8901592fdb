"""Actions of an agent in the network of its request: the target of an answer, and reactions. Pure."""

from typing import Any

from google.protobuf.json_format import ParseDict

from aion_core.protocol.aion.extensions import MESSAGE_ACTION_SCHEMA, MESSAGING, REACTION_ACTION_SCHEMA
from aion_core.protocol.aion.inbound import Inbound, schemas_of
from aion_core.protocol.aion.payloads import (
    ExtensionPayload,
    MessageAction,
    MessageEvent,
    ReactionAction,
    ReactionEvent,
)
from aion_core.protocol.types import Artifact, Message, Part


def answer_to(inbound: Inbound) -> MessageAction | None:
    """Return the default target for an answer to a request; None if the request has no event of a source network.

    The target is the conversation of the event, or the sender of a direct message.
    """
    payload = inbound.event.payload if inbound.event is not None else None
    if payload is None:
        return None
    trajectory = payload.trajectory if isinstance(payload, MessageEvent) else "conversation"
    return MessageAction(
        trajectory=trajectory,
        context_id=payload.context_id,
        parent_context_id=payload.parent_context_id,
        user_id=payload.user_id if trajectory == "direct-message" else None,
        reply_to_message_id=payload.message_id if isinstance(payload, MessageEvent | ReactionEvent) else None,
    )


def conversation_at(context_id: str) -> MessageAction:
    """Return the action that sends a message to this conversation of the network from which the request came."""
    return MessageAction(trajectory="conversation", context_id=context_id)


def send(message: Message, action: MessageAction) -> bool:
    """Add a target to a message of the agent. Return False if the agent has already set one."""
    if any(MESSAGE_ACTION_SCHEMA in schemas_of(part) for part in message.parts):
        return False
    message.parts.append(target_of(action))
    if MESSAGING not in message.extensions:
        message.extensions.append(MESSAGING)
    return True


def without_target(message: Message) -> Message:
    """Return a copy of the message without a target."""
    copy = Message()
    copy.CopyFrom(message)
    del copy.parts[:]
    copy.parts.extend(part for part in message.parts if MESSAGE_ACTION_SCHEMA not in schemas_of(part))
    return copy


def target_of(action: MessageAction) -> Part:
    """Return the part of a message with this target."""
    return _data(action, MESSAGE_ACTION_SCHEMA)


def react(inbound: Inbound, key: str) -> Artifact | None:
    """Return an artifact with a reaction to the received message; None if it is not from a source network."""
    payload = inbound.event.payload if inbound.event is not None else None
    if not isinstance(payload, MessageEvent):
        return None
    action = ReactionAction(
        context_id=payload.context_id, message_id=payload.message_id, reaction_key=key, operation="add"
    )
    artifact = Artifact(parts=[_data(action, REACTION_ACTION_SCHEMA)], extensions=[MESSAGING])
    artifact.metadata.update(schema_named(REACTION_ACTION_SCHEMA))
    return artifact


def schema_named(schema: str) -> dict[str, Any]:
    """Return metadata for a part or artifact. It names the schema, as defined by the messaging extension."""
    return {MESSAGING: {"schema": schema}}


def _data(payload: ExtensionPayload, schema: str) -> Part:
    return ParseDict({"data": payload.as_json(), "metadata": schema_named(schema)}, Part())
