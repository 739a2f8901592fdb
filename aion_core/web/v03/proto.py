"""Conversions between v1.0's messages and those of v0.3's proto file (`a2a.v1` of the SDK for v0.3).

The SDK converts through its JSON-RPC models, and thereby converts free JSON values (data and metadata) three times in
each direction. This takes longer than everything else. So the SDK converts messages without these values, and this
module copies the values as protobuf values, which are the same in both versions.
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.compat.v0_3.types import MessageSendParams
from google.protobuf.message import Message as AnyMessage
from google.protobuf.struct_pb2 import Struct

from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Event, Message, Part, SendMessageRequest, Task
from aion_core.protocol.v03_json import DATA_PART_MARKER, without_marker

M = TypeVar("M", bound=AnyMessage)


def task_json(task: Task) -> Any:
    """Convert a v1.0 task to the JSON of v0.3's proto file."""
    return to_json(to_proto(task, lambda event: ToProto.task(_compat(event))))


def response_json(answer: Task | Message) -> Any:
    """Convert the response to a message into the JSON of v0.3's SendMessageResponse."""
    return to_json(to_proto(answer, lambda event: ToProto.task_or_message(_compat(event))))


def with_files_encoded_once(written: Any) -> Any:
    """Return the JSON of a response or event with files in base64. The SDK has encoded them twice.

    Free JSON values are unchanged.
    """
    if isinstance(written, list):
        return [with_files_encoded_once(each) for each in written]
    if not isinstance(written, dict):
        return written
    if isinstance(written.get("fileWithBytes"), str):
        return {**written, "fileWithBytes": base64.b64decode(written["fileWithBytes"]).decode("ascii")}
    return {
        name: value if name in ("data", "metadata") else with_files_encoded_once(value)
        for name, value in written.items()
    }


def _compat(event: Any) -> Any:
    convert = conversions.to_compat_task if isinstance(event, Task) else conversions.to_compat_message
    return without_marker(convert(event))


def to_proto(event: Event, convert: Callable[[Any], M]) -> M:
    """Convert an event with `convert`, then copy its free JSON values (data and metadata)."""
    converted = convert(_without_values(event))
    for source, target in zip(_holders(event), _holders(converted), strict=True):
        if source.HasField("metadata"):
            target.metadata.CopyFrom(source.metadata)
        if not _has_data(source):
            continue
        if source.data.WhichOneof("kind") == "struct_value":
            target.data.data.CopyFrom(source.data.struct_value)
        else:
            # Wrap the value in an object, because the data of a part must be an object in v0.3.
            target.data.data.fields["value"].CopyFrom(source.data)
        _remove_marker(target)
    return converted


def from_proto(
    sent: pb03.SendMessageRequest, convert: Callable[[MessageSendParams], SendMessageRequest]
) -> SendMessageRequest:
    """Convert a v0.3 request with `convert`, then copy its free JSON values (data and metadata)."""
    hollow = _without_values(sent)
    request = convert(FromProto.message_send_params(hollow))
    if sent.metadata.fields:
        request.metadata.CopyFrom(sent.metadata)
    for source, target in zip(_holders(sent.request), _holders(request.message), strict=True):
        if source.metadata.fields:
            target.metadata.CopyFrom(source.metadata)
        if not _has_data(source):
            continue
        data = source.data.data
        if _remove_marker(target) and "value" in data.fields:
            target.data.CopyFrom(data.fields["value"])
        else:
            target.data.struct_value.CopyFrom(data)
    return request


def _holders(event: Any) -> Iterator[Any]:
    """Yield every object that may have metadata, in an event of either version or in a v0.3 request.

    The order is the same in both versions.
    """
    match event.DESCRIPTOR.name:
        case "SendMessageResponse" | "StreamResponse":
            yield from _holders(getattr(event, event.WhichOneof("payload")))
            return
        case "Task":
            within = [*_messages_of(event.status), *event.history, *event.artifacts]
        case "TaskStatusUpdateEvent":
            within = _messages_of(event.status)
        case "TaskArtifactUpdateEvent":
            within = [event.artifact]
        case "SendMessageRequest":
            within = [event.request]
        case "Message":
            within = [*(event.content if isinstance(event, pb03.Message) else event.parts)]
        case "Artifact":
            within = [*event.parts]
        case _:
            within = []
    yield event
    for each in within:
        yield from _holders(each)


def _messages_of(status: Any) -> list[Any]:
    field = "update" if isinstance(status, pb03.TaskStatus) else "message"
    return [getattr(status, field)] if status.HasField(field) else []


def _has_data(holder: Any) -> bool:
    return isinstance(holder, Part | pb03.Part) and holder.HasField("data")


def _without_values(event: Any) -> Any:
    """Return a copy of the event without metadata and with empty data."""
    hollow = type(event)()
    hollow.CopyFrom(event)
    for holder in _holders(hollow):
        holder.ClearField("metadata")
        if _has_data(holder):
            empty = Struct()
            if isinstance(holder, pb03.Part):
                holder.data.data.CopyFrom(empty)
            else:
                holder.data.struct_value.CopyFrom(empty)
    return hollow


def _remove_marker(part: Any) -> bool:
    """Remove the SDK's marker from the metadata of a data part. Return True if the marker was set."""
    fields = part.metadata.fields
    marked = bool(DATA_PART_MARKER in fields and fields[DATA_PART_MARKER].bool_value)
    if DATA_PART_MARKER in fields:
        del fields[DATA_PART_MARKER]
        if not fields:
            part.ClearField("metadata")
    return marked
