"""A reaction of the agent's, as the artifact that tells of it; the same for both frameworks. Pure."""

from collections.abc import Collection

from google.protobuf.json_format import ParseDict

from aion_core.agents.context import inbound_of
from aion_core.ports import Asked
from aion_core.protocol.aion.outbound import react
from aion_core.protocol.types import Artifact, Part

REACTION = "aion:reaction"
"""The id of a reaction's artifact, by which Aion's clients know it; or what it begins with."""
NAME = "Reaction"


def reaction(asked: Asked, key: str, message_id: str, opened: Collection[str]) -> Artifact:
    """Return the reaction to the message of this id; `opened` are the ids of the task's artifacts.

    To the message of a source network it is a ReactionActionPayload in that network's own ids; to any other it holds
    the key and the messageId.
    """
    action = react(inbound_of(asked), key) if message_id == asked.message.message_id else None
    if action is None:
        data = {"data": {"key": key, "messageId": message_id}}
        return Artifact(artifact_id=f"{REACTION}:{message_id}", name=NAME, parts=[ParseDict(data, Part())])
    # A second reaction does not take the first one's place in the task.
    action.artifact_id = f"{REACTION}:{message_id}:{key}" if REACTION in opened else REACTION
    action.name = NAME
    return action
