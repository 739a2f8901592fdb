"""Domain types: the protobuf types of the official SDK (A2A v1.0).

All of aion imports them from here, so that a change in the SDK affects one place.
"""

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

Event = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""Event of a stream (A2A 3.2.3), also stored in the event log of a task."""

STREAM_DELTA_ID = "aion:stream-delta"
"""Id of the transient artifact with text chunks of the model."""

STREAM_DELTA_IDS = (STREAM_DELTA_ID, "aion:streamDelta")
"""Current and older id of the stream delta artifact in requests."""

STREAM_DELTA_NAME = "Stream Delta"
"""Name of the stream delta artifact."""

__all__ = [
    "STREAM_DELTA_ID",
    "STREAM_DELTA_IDS",
    "STREAM_DELTA_NAME",
    "AgentCapabilities",
    "AgentCard",
    "AgentCardSignature",
    "AgentExtension",
    "AgentInterface",
    "AgentProvider",
    "AgentSkill",
    "Artifact",
    "Event",
    "GetTaskRequest",
    "ListTasksRequest",
    "ListTasksResponse",
    "Message",
    "Part",
    "Role",
    "SecurityRequirement",
    "SecurityScheme",
    "SendMessageConfiguration",
    "SendMessageRequest",
    "StreamResponse",
    "Task",
    "TaskArtifactUpdateEvent",
    "TaskState",
    "TaskStatus",
    "TaskStatusUpdateEvent",
    "stream_response",
    "unwrap",
]


def stream_response(event: Event) -> StreamResponse:
    """Wrap an event in the StreamResponse message."""
    match event:
        case Task():
            return StreamResponse(task=event)
        case Message():
            return StreamResponse(message=event)
        case TaskStatusUpdateEvent():
            return StreamResponse(status_update=event)
        case TaskArtifactUpdateEvent():
            return StreamResponse(artifact_update=event)


def unwrap(response: StreamResponse) -> Event:
    """Return the event in a StreamResponse message. Raises ValueError for an empty message."""
    match response.WhichOneof("payload"):
        case "task":
            return response.task
        case "message":
            return response.message
        case "status_update":
            return response.status_update
        case "artifact_update":
            return response.artifact_update
        case _:
            raise ValueError("the stream response is empty")


# ── Streamed events outside of the log: text chunks and the typing indicator ──────────────────────────────────────────


def delta_event(
    *, task_id: str, context_id: str, text: str, append: bool, last: bool, reason: str
) -> TaskArtifactUpdateEvent:
    """Return the artifact update event of a text chunk. The artifact is never part of the task.

    In the first and the last chunk, the artifact's metadata have the state of the stream for Aion's clients.
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
    """Return the artifact update event of the typing indicator. It has no text."""
    return TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=EPHEMERAL_ID, name=EPHEMERAL_NAME, parts=[Part(text="")]),
        last_chunk=True,
    )


EPHEMERAL_ID, EPHEMERAL_NAME = "aion:ephemeral-message", "Ephemeral Message"
"""Id and name of an artifact that Aion's clients display briefly and do not store."""
