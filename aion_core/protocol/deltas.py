"""What is spoken and never kept, as the protocol's events: chunks of text (R61, D8-D10), and that one is writing."""

from aion_core.protocol.types import STREAM_DELTA_ID, STREAM_DELTA_NAME, Artifact, Part, TaskArtifactUpdateEvent


def delta_event(
    *, task_id: str, context_id: str, text: str, append: bool, last: bool, reason: str
) -> TaskArtifactUpdateEvent:
    """Return the artifact update that carries the chunk; the artifact is never part of the task (R62).

    The first and the closing chunk say in the artifact's metadata where the stream delta stands, in the words of
    Aion's clients; those between say nothing.
    """
    event = TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=STREAM_DELTA_ID, name=STREAM_DELTA_NAME, parts=[Part(text=text)]),
        append=append,
        last_chunk=last,
    )
    if last:
        event.artifact.metadata.update({"status": "finalized", "status_reason": reason})
    elif not append:
        event.artifact.metadata.update({"status": "active", "status_reason": "chunk_streaming"})
    return event


def typing_event(*, task_id: str, context_id: str) -> TaskArtifactUpdateEvent:
    """Return the artifact update that says that an answer is being written; it carries no text."""
    return TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=EPHEMERAL_ID, name=EPHEMERAL_NAME, parts=[Part(text="")]),
        last_chunk=True,
    )


EPHEMERAL_ID, EPHEMERAL_NAME = "aion:ephemeral-message", "Ephemeral Message"
"""The artifact that Aion's clients show for a moment, and never keep."""
