"""Where an answer goes, and a reaction, as a distribution is told of it. Pure (R58)."""

from typing import Any

from google.protobuf.json_format import ParseDict

from aion_core.protocol.aion import uris
from aion_core.protocol.aion.inbound import Inbound, schemas_of
from aion_core.protocol.aion.payloads import MessageAction, MessageEvent, Payload, ReactionAction, ReactionEvent
from aion_core.protocol.types import Artifact, Message, Part


def answer_to(inbound: Inbound) -> MessageAction | None:
    """Return where an answer goes by itself: to where the event was, a direct message to its sender.

    None where the request brought no event of a source network: the client knows where its answer goes.
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
    """Return where a message goes that is to stand in the conversation of this id in the source network."""
    return MessageAction(trajectory="conversation", context_id=context_id)


def send(message: Message, action: MessageAction) -> None:
    """Have the message say where it goes, unless its author has it say so."""
    if any(uris.MESSAGE_ACTION_SCHEMA in schemas_of(part) for part in message.parts):
        return
    message.parts.append(_data(action, uris.MESSAGE_ACTION_SCHEMA))
    if uris.MESSAGING not in message.extensions:
        message.extensions.append(uris.MESSAGING)


def react(inbound: Inbound, key: str) -> Artifact | None:
    """Return the reaction to the message that came in; None where that is not of a source network."""
    payload = inbound.event.payload if inbound.event is not None else None
    if not isinstance(payload, MessageEvent):
        return None
    action = ReactionAction(
        context_id=payload.context_id, message_id=payload.message_id, reaction_key=key, operation="add"
    )
    artifact = Artifact(parts=[_data(action, uris.REACTION_ACTION_SCHEMA)], extensions=[uris.MESSAGING])
    artifact.metadata.update(schema_named(uris.REACTION_ACTION_SCHEMA))
    return artifact


def schema_named(schema: str) -> dict[str, Any]:
    """Return the metadata that name a schema of the messaging extension."""
    return {uris.MESSAGING: {"schema": schema}}


def _data(payload: Payload, schema: str) -> Part:
    return ParseDict({"data": payload.as_json(), "metadata": schema_named(schema)}, Part())
