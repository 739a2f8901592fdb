"""The domain's types: those of the official SDK (A2A v1.0 protobuf), under one name each.

Everything else in aion imports them from here, so that a change of the SDK is met in one place.
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
"""What a stream may hold, and so what the log holds (R27)."""

STREAM_DELTA_ID = "aion:stream-delta"
"""Id of the transitory artifact that carries text as the model speaks it (R61, D8)."""

STREAM_DELTA_IDS = (STREAM_DELTA_ID, "aion:streamDelta")
"""Under which ids it may come in: the second is an older one of it, which is only read (D8)."""

STREAM_DELTA_NAME = "Stream Delta"
"""Its name (R61)."""

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
    """Return the event in the wrapper that has exactly one of its members set (R28)."""
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
    """Return the one event that the wrapper holds.

    Raises ValueError where it holds none.
    """
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


# ── Events that are streamed and never stored: chunks of text (R61, D8-D10), and the typing indicator ─────────────────


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
