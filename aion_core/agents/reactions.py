"""Artifacts that represent reactions of the agent, such as an emoji."""

from google.protobuf.json_format import ParseDict

from aion_core.agents.helper_calls import Reaction
from aion_core.agents.turn_context import inbound_of
from aion_core.engine.agent import AgentArtifact, TurnRequest
from aion_core.protocol.aion.actions import react
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Artifact, Part

REACTION = "aion:reaction"
"""Id, or prefix of the id, of the artifact that represents a reaction."""

REACTION_NAME = "Reaction"


def reaction_artifact(request: TurnRequest, reaction: Reaction, key: str, opened: set[str]) -> AgentArtifact:
    """Return the artifact that represents a reaction, and add its id to `opened`.

    A reaction to a message of a source network is a ReactionActionPayload with that network's ids. Any other reaction
    is an artifact with the reaction's key and the messageId. `opened` has the ids of the artifacts so far.
    """
    ours = reaction.message_id == request.message.message_id
    action = react(inbound_of(request), reaction.key) if ours else None
    if action is None:
        data = {"data": {"key": reaction.key, "messageId": reaction.message_id}}
        plain = Artifact(
            artifact_id=f"{REACTION}:{reaction.message_id}", name=REACTION_NAME, parts=[ParseDict(data, Part())]
        )
        return AgentArtifact(plain, key=key)
    # Use another id for a second reaction, so that it does not replace the first reaction in the task.
    action.artifact_id = f"{REACTION}:{reaction.message_id}:{reaction.key}" if REACTION in opened else REACTION
    action.name = REACTION_NAME
    opened.add(action.artifact_id)
    # Copy the artifact's metadata to the event, because Aion's clients read the metadata of the event. Clients that get
    # the stored task read the metadata of the artifact.
    return AgentArtifact(action, key=key, metadata=to_json(action.metadata))
