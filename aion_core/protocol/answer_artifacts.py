"""Messages of the agent as artifacts (A2A 3.7), by `answer: artifact` or `both` in aion.yaml. Pure."""

from aion_core.protocol.types import Artifact, Message, Role

ANSWERS = "aion:answers"
"""Metadata key of an artifact with an answer; its value is the id of the answered message."""
NAME = "answer"

MESSAGE = "aion:message"
"""Metadata key of an artifact that is only streamed: the task has it as a message of its history, or not at all."""


def as_artifact(answer: Message, message: Message) -> Artifact:
    """Return an artifact with the id and content of `answer`, marked as the answer to `message`."""
    artifact = Artifact(
        artifact_id=answer.message_id,
        name=NAME,
        parts=answer.parts,
        metadata=answer.metadata,
        extensions=answer.extensions,
    )
    artifact.metadata.update({ANSWERS: message.message_id})
    return artifact


def as_streamed(message: Message) -> Artifact:
    """Return a message of the turn as an artifact for a stream. The artifact never becomes part of the task."""
    artifact = Artifact(artifact_id=message.message_id, parts=message.parts, extensions=message.extensions)
    if message.HasField("metadata"):
        artifact.metadata.CopyFrom(message.metadata)
    artifact.metadata.update({MESSAGE: True})
    return artifact


def is_only_streamed(artifact: Artifact) -> bool:
    """Return True if the artifact, as a stream has delivered it, is no part of its task."""
    return MESSAGE in artifact.metadata and not is_answer(artifact)


def is_answer(artifact: Artifact) -> bool:
    """Return True if the artifact is a turn's answer. Its metadata key is reserved: agent authors cannot set it."""
    return ANSWERS in artifact.metadata


def as_message(artifact: Artifact, task_id: str, context_id: str) -> Message:
    """Return the artifact as a message of the agent in this task, without the server's metadata."""
    message = Message(
        message_id=artifact.artifact_id,
        role=Role.ROLE_AGENT,
        task_id=task_id,
        context_id=context_id,
        parts=artifact.parts,
        extensions=artifact.extensions,
    )
    own = {key: value for key, value in artifact.metadata.items() if key not in (ANSWERS, MESSAGE)}
    if own:
        message.metadata.update(own)
    return message
