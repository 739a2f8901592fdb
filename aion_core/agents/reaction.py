"""A reaction of the agent's, as the artifact that tells of it; the same for every framework."""

from google.protobuf.json_format import MessageToDict, ParseDict

from aion_core.agents.context import inbound_of
from aion_core.agents.sink import Reacted
from aion_core.ports import Asked, Emitted
from aion_core.protocol.aion.outbound import react
from aion_core.protocol.types import Artifact, Part

REACTION = "aion:reaction"
"""The id of a reaction's artifact, by which Aion's clients know it; or what it begins with."""
NAME = "Reaction"


def reaction_of(asked: Asked, reacted: Reacted, key: str, opened: set[str]) -> Emitted:
    """Return a reaction to a message as the client hears it; `opened` are the ids of the artifacts, it is added to them.

    To the message of a source network it is a ReactionActionPayload in that network's own ids; to any other it holds
    the key and the messageId.
    """
    ours = reacted.message_id == asked.message.message_id
    action = react(inbound_of(asked), reacted.key) if ours else None
    if action is None:
        data = {"data": {"key": reacted.key, "messageId": reacted.message_id}}
        plain = Artifact(artifact_id=f"{REACTION}:{reacted.message_id}", name=NAME, parts=[ParseDict(data, Part())])
        return Emitted(plain, key=key)
    # A second reaction does not take the first one's place in the task.
    action.artifact_id = f"{REACTION}:{reacted.message_id}:{reacted.key}" if REACTION in opened else REACTION
    action.name = NAME
    opened.add(action.artifact_id)
    # Aion's clients look at the event for what it is; the artifact says it to who reads the task.
    return Emitted(action, key=key, metadata=MessageToDict(action.metadata))
