"""Conversions to and from v0.3's proto file: they equal the SDK's, but copy free JSON values unchanged."""

from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from google.protobuf.json_format import ParseDict

from aion_core.protocol.types import (
    Artifact,
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from aion_core.web.v03.jsonrpc_types import core_request
from aion_core.web.v03.proto import from_proto, to_proto
from aion_core.web.v03.stream import v03_event
from tests.support.rows import each_row

FREE = {"a": [1, 2.5, {"b": None}, "text", True, []], "": {}, "é": "\U0001f600"}
PARTS: dict[str, dict[str, Any]] = {
    "text": {"text": "hi"},
    "text with metadata": {"text": "hi", "metadata": FREE},
    "data": {"data": FREE},
    "empty data": {"data": {}},
    "data with metadata": {"data": FREE, "metadata": FREE},
    "data of a list": {"data": [1, FREE]},
    "data of a text": {"data": "x", "metadata": FREE},
    "data of null": {"data": None},
    "data with the SDK's marker": {"data": FREE, "metadata": {"data_part_compat": True}},
    "file": {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain", "metadata": FREE},
    "url": {"url": "https://example.com/a", "mediaType": "text/plain"},
    "empty metadata": {"text": "hi", "metadata": {}},
}
"""JSON of v1.0 parts by name."""


def message(*parts: dict[str, Any], **more: Any) -> Message:
    sent = {"messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_AGENT", "parts": parts, **more}
    return ParseDict(sent, Message())


def events(*parts: dict[str, Any]) -> list[Event]:
    """Return an event of each kind with these parts."""
    said = message(*parts, metadata=FREE, extensions=["urn:x"])
    about: dict[str, Any] = {"task_id": "t", "context_id": "c"}
    artifact = Artifact(artifact_id="a", name="n", parts=said.parts, metadata=said.metadata)
    status = TaskStatus(state="TASK_STATE_CANCELED", message=said)
    status.timestamp.FromJsonString("2026-01-02T03:04:05.678Z")
    return [
        said,
        message(*parts),
        Task(id="t", context_id="c", status=status, history=[said, message()], artifacts=[artifact], metadata=said.metadata),
        Task(id="t", context_id="c", status=TaskStatus(state="TASK_STATE_WORKING")),
        TaskStatusUpdateEvent(**about, status=status, metadata=said.metadata),
        TaskStatusUpdateEvent(**about, status=TaskStatus(state="TASK_STATE_INPUT_REQUIRED")),
        TaskArtifactUpdateEvent(**about, artifact=artifact, append=True, last_chunk=True, metadata=said.metadata),
    ]  # fmt: skip


def by_the_sdk(event: Event) -> Any:
    return ToProto.stream_response(v03_event(event))


@each_row("name", PARTS)
def test_event_conversion_to_v03_protobuf_equals_that_of_sdk(name: str) -> None:
    for event in events(PARTS[name], {"text": "and"}, PARTS[name]):
        assert to_proto(event, by_the_sdk) == by_the_sdk(event)


@each_row("name", PARTS)
def test_conversion_to_v03_does_not_change_original_event(name: str) -> None:
    for event in events(PARTS[name]):
        before = event.SerializeToString(deterministic=True)
        to_proto(event, by_the_sdk)
        assert event.SerializeToString(deterministic=True) == before


SENT: dict[str, dict[str, Any]] = {
    "text": {"text": "hi"},
    "data": {"data": {"data": FREE}, "metadata": FREE},
    "empty data": {"data": {"data": {}}},
    "marked data": {"data": {"data": {"value": [1, FREE]}}, "metadata": {"data_part_compat": True}},
    "marked data with metadata": {"data": {"data": {"value": None}}, "metadata": {"data_part_compat": True, **FREE}},
    "data with a false marker": {"data": {"data": {"value": 1}}, "metadata": {"data_part_compat": False, "x": 1}},
    "file": {"file": {"fileWithUri": "https://example.com/a", "name": "a"}, "metadata": FREE},
    "bytes": {"file": {"fileWithBytes": "YUdrPQ==", "mimeType": "text/plain"}},
}
"""JSON of parts in v0.3's proto file by name."""


def request(*parts: dict[str, Any], **more: Any) -> pb03.SendMessageRequest:
    sent = {"messageId": "m", "contextId": "c", "role": "ROLE_USER", "content": parts, "metadata": FREE}
    return ParseDict({"message": sent, **more}, pb03.SendMessageRequest())


def core(params: v03.MessageSendParams) -> Any:
    return core_request(v03.SendMessageRequest(id="", params=params))


@each_row("name", SENT)
def test_request_conversion_from_v03_protobuf_equals_that_of_sdk(name: str) -> None:
    configuration = {"acceptedOutputModes": ["text/plain"], "blocking": True, "historyLength": 3}
    for sent in (
        request(SENT[name]),
        request({"text": "a"}, SENT[name], metadata=FREE, configuration=configuration),
        request(SENT[name], SENT[name], metadata={}),
    ):
        assert from_proto(sent, core) == core(FromProto.message_send_params(sent))


def test_metadata_mark_of_wrapped_data_is_ignored_without_wrapper() -> None:
    """Mark data as wrapped by the SDK, but without the wrapper: the SDK does not convert it, nor do we."""
    [part] = from_proto(request({"data": {"data": FREE}, "metadata": {"data_part_compat": True}}), core).message.parts
    assert part == message({"data": FREE}).parts[0]
