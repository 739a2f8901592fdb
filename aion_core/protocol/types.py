"""Domain types: the protobuf types of the official SDK (A2A v1.0), and their JSON in v1.0 and v0.3. Pure.

All other modules of aion import the types from here, so that a change in the SDK affects only this file.
"""

from collections.abc import Mapping
from math import copysign
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import Struct, Value

if TYPE_CHECKING:
    from pydantic import BaseModel

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

for _enum in (Role, TaskState):
    for _name, _number in _enum.items():
        # Store the number as an attribute. Otherwise protobuf searches the enum's descriptor at each access.
        setattr(_enum, _name, _number)

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
    *,
    task_id: str,
    context_id: str,
    text: str,
    append: bool,
    last: bool,
    reason: str,
    speaker: Mapping[str, str] | None = None,
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


def typing_event(*, task_id: str, context_id: str) -> TaskArtifactUpdateEvent:
    """Return the artifact update event for the typing indicator. Its text is empty."""
    return TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(artifact_id=EPHEMERAL_ID, name=EPHEMERAL_NAME, parts=[Part(text="")]),
        last_chunk=True,
    )


EPHEMERAL_ID, EPHEMERAL_NAME = "aion:ephemeral-message", "Ephemeral Message"
"""Id and name of an artifact that Aion's clients display briefly and do not store."""


# ── Text ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def utf8(text: str) -> str:
    """Join the halves of surrogate pairs, and replace lone halves by question marks, because UTF-8 cannot encode them.

    A model may split a pair between two chunks, or end its text with half a pair.
    """
    if text.isascii():
        return text
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return joined.encode("utf-8", "replace").decode()


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

M = TypeVar("M", bound="BaseModel")

MAX_EXACT = 2**53
"""Limit below which a double has every integer exactly. Protobuf's JSON values store all numbers as doubles."""


def to_json(message: AnyMessage) -> Any:
    """Return a protobuf message as JSON. Whole numbers in its data and metadata become integers."""
    return with_integers(MessageToDict(message))


def require_json(message: AnyMessage) -> None:
    """Raise ValueError if the message contains a number that JSON cannot express, such as NaN."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                # Check data and metadata, because only they can contain a number such as NaN.
                if isinstance(each, Struct | Value):
                    MessageToDict(each)
                else:
                    require_json(each)


def with_integers(value: Any) -> Any:
    """Return a JSON value with whole numbers below MAX_EXACT as integers. Protobuf has read them as doubles.

    Negative zero stays a float, because integers have no negative zero.
    """
    match value:
        # Test the most frequent types first, and Mapping last, because its check takes the longest.
        case str() | None | int():
            return value
        case float():
            is_whole = value.is_integer() and abs(value) < MAX_EXACT and (value != 0 or copysign(1, value) > 0)
            return int(value) if is_whole else value
        case list():
            return [item if type(item) is str else with_integers(item) for item in value]
        case dict() | Mapping():
            return {key: item if type(item) is str else with_integers(item) for key, item in value.items()}
    return value


DATA_PART_MARKER = "data_part_compat"
"""Metadata key that the SDK adds to a v0.3 data part if its data is not an object in v1.0."""


def v03_json(model: "BaseModel") -> Any:
    """Return a v0.3 model of the SDK as JSON, with whole numbers as integers.

    In v0.3 the data of a part must be an object. Other v1.0 data is in its field `value`. The SDK marks such
    data in the part's metadata. The marker is removed.
    """
    return with_integers(without_marker(model).model_dump(mode="json", by_alias=True, exclude_none=True))


def without_marker(model: M) -> M:
    """Remove the key DATA_PART_MARKER, which the SDK adds, from the data parts of a v0.3 model. Return the model."""
    _remove_marker(model)
    return model


def _remove_marker(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _remove_marker(item)
        return
    for name in getattr(type(value), "model_fields", ()):
        field = getattr(value, name)
        if name == "metadata" and getattr(value, "kind", "") == "data" and field:
            field.pop(DATA_PART_MARKER, None)
            value.metadata = field or None
        else:
            _remove_marker(field)
