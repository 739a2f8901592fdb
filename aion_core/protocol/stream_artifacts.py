"""Transient artifacts of a stream: text chunks of a model, and the typing indicator."""

from collections.abc import Mapping
from typing import Any

from aion_core.protocol.types import Artifact, Part, TaskArtifactUpdateEvent

STREAM_DELTA_ID = "aion:stream-delta"
"""Id of the transient artifact with text chunks of the model."""

STREAM_DELTA_IDS = (STREAM_DELTA_ID, "aion:streamDelta")
"""Current and older id of the stream delta artifact in requests."""

STREAM_DELTA_NAME = "Stream Delta"
"""Name of the stream delta artifact."""

EPHEMERAL_ID, EPHEMERAL_NAME = "aion:ephemeral-message", "Ephemeral Message"
"""Id and name of an artifact that Aion's clients display briefly and do not store."""


def delta_event(
    *,
    task_id: str,
    context_id: str,
    text: str,
    append: bool,
    last: bool,
    reason: str,
    speaker: Mapping[str, Any] | None = None,
) -> TaskArtifactUpdateEvent:
    """Return the artifact update event for a text chunk. The artifact is never part of the task.

    In the first and the last chunk, the artifact's metadata contain the state of the stream, for Aion's clients. In the
    first chunk they also contain the speaker: `messageId` and, if known, `node`, `agent` and `branch`.
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
        event.artifact.metadata.update({"status": "active", "status_reason": "chunk_streaming", **(speaker or {})})
    return event


def chunk_event(
    artifact_id: str, *, task_id: str, context_id: str, text: str, append: bool, metadata: Mapping[str, Any]
) -> TaskArtifactUpdateEvent:
    """Return the artifact update event for a text chunk of a message that is streamed as an artifact (A2A 3.7)."""
    event = TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=artifact_id, parts=[Part(text=text)]),
        append=append,
    )
    if metadata:
        event.artifact.metadata.update(metadata)
    return event


def typing_event(*, task_id: str, context_id: str) -> TaskArtifactUpdateEvent:
    """Return the artifact update event for the typing indicator. Its text is empty."""
    return TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=EPHEMERAL_ID, name=EPHEMERAL_NAME, parts=[Part(text="")]),
        last_chunk=True,
    )
