"""Domain types: the protobuf types of the official SDK (A2A v1.0). Pure.

All other modules of aion import the types from here, so that a change in the SDK affects only this file.
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

for _enum in (Role, TaskState):
    for _name, _number in _enum.items():
        # Store the number as an attribute. Otherwise protobuf searches the enum's descriptor at each access.
        setattr(_enum, _name, _number)

__all__ = [
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

_TAGS = {
    kind: StreamResponse.DESCRIPTOR.fields_by_name[name].number << 3 | 2
    for kind, name in (
        (Task, "task"),
        (Message, "message"),
        (TaskStatusUpdateEvent, "status_update"),
        (TaskArtifactUpdateEvent, "artifact_update"),
    )
}
"""Tag before the bytes of each type of event in a StreamResponse: the field's number, and 2 for a length that follows."""


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


def stream_response_bytes(event: Event) -> bytes:
    """Serialize an event as the StreamResponse that contains it, without a copy of the event."""
    packed = event.SerializeToString()
    size, groups = len(packed), bytearray([_TAGS[type(event)]])
    while size > 127:
        groups.append(size & 127 | 128)
        size >>= 7
    groups.append(size)
    return bytes(groups) + packed


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
