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
