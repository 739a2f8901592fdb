"""What a turn says at its end, under ids and keys that it has again where the end is reached again. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from aion_core.agents.reply import Left, resolve
from aion_core.agents.said import REST, made_id
from aion_core.ports import Asked, Emission, Emitted, Reply, Said
from aion_core.protocol.extensions import is_reserved
from aion_core.protocol.types import Artifact, Message

INVOKED = "agentInvoked"
"""The metadata key of the status update that says which sub-agent was invoked (R39)."""


def last_words(asked: Asked, left: Left) -> Iterator[Emission]:
    """Yield what is still to be said of what the turn has left, the Reply last."""
    for place, emission in enumerate(resolve(left)):
        # The end may be reached again, by another process: what was said of it keeps its key and its id.
        if isinstance(emission, Emitted):
            emission = replace(emission, artifact=settled(asked, emission.artifact), key=rest_key(asked, place))
        elif isinstance(emission, Said):
            emission = replace(
                emission, message=_identified(asked, emission.message, place), key=rest_key(asked, place)
            )
        elif isinstance(emission, Reply) and emission.message is not None:
            emission = replace(emission, message=_identified(asked, emission.message, "answer"))
        yield emission


def rest_key(asked: Asked, place: object) -> str:
    """Return the key of what is said at this place of the turn's end."""
    return f"{REST}{asked.turn.id}/{place}"


def settled(asked: Asked, given: Artifact) -> Artifact:
    """Settle an artifact's identity: the id that was given, else (task, name); ids of the server's are its own."""
    artifact = Artifact()
    artifact.CopyFrom(given)
    if not artifact.artifact_id or is_reserved(artifact.artifact_id):
        artifact.artifact_id = made_id(asked.task.id, artifact.name)
    return artifact


def _identified(asked: Asked, message: Message, name: object) -> Message:
    """Give a message of the turn's end an id that it has again where that is reached again."""
    if not message.message_id:
        message.message_id = made_id(asked.turn.id, str(name))
    return message
