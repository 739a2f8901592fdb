"""Formats of Server-Sent Events in A2A v0.3: for JSON-RPC and for both forms of HTTP+JSON."""

from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.proto_utils import ToProto

from aion_core.engine.task import states
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Event, TaskStatusUpdateEvent, stream_response
from aion_core.protocol.v03_json import v03_json, without_marker
from aion_core.web.errors import error_body, v03_rest_error_body
from aion_core.web.sse import RequestId, StreamFormat, json_text
from aion_core.web.v03.proto import to_proto, with_files_encoded_once

EventV03 = v03.Task | v03.Message | v03.TaskStatusUpdateEvent | v03.TaskArtifactUpdateEvent


def jsonrpc_v03(request_id: RequestId) -> StreamFormat:
    """Return the stream format of v0.3's JSON-RPC binding. An event has a `kind` and no wrapper (A2A v0.3 7.2)."""

    def encode(event: Event, is_last: bool) -> str:
        return json_text({"id": request_id, "jsonrpc": "2.0", "result": v03_json(v03_event(event, is_last))})

    return StreamFormat(encode, lambda error: error_body(request_id, error))


def _proto_json(event: Event, is_last: bool) -> Any:
    """Convert an event to a StreamResponse of v0.3's proto file, as JSON."""
    return to_json(to_proto(event, lambda each: ToProto.stream_response(v03_event(each, is_last))))


REST_V03 = StreamFormat(lambda event, is_last: json_text(_proto_json(event, is_last)), v03_rest_error_body)
"""Stream format of v0.3's HTTP+JSON binding for the Python SDK. Each frame is a StreamResponse of v0.3's proto file."""

REST_V03_FILES_ONCE = StreamFormat(
    lambda event, is_last: json_text(with_files_encoded_once(_proto_json(event, is_last))), v03_rest_error_body
)
"""Same format as `REST_V03`, for clients that decode files once."""

REST_V03_KINDS = StreamFormat(
    lambda event, is_last: json_text(v03_json(v03_event(event, is_last))), v03_rest_error_body
)
"""Stream format of v0.3's HTTP+JSON binding for clients of the specification's text. An event has a `kind`."""


def v03_event(event: Event, is_last: bool = True) -> EventV03:
    """Convert an event to v0.3's types. Mark a stream's last status update as final (A2A v0.3 7.2.2).

    `is_last` is False if further recorded events follow: then a question is answered, and does not end the stream.
    """
    response = conversions.to_compat_stream_response(stream_response(event))
    if isinstance(response.result, v03.TaskStatusUpdateEvent):
        # Set `final` for an interrupted state too: it ends the stream, but the SDK marks only terminal states.
        ends = states.TERMINAL_OR_INTERRUPTED if is_last else states.TERMINAL
        response.result.final = isinstance(event, TaskStatusUpdateEvent) and event.status.state in ends
    return without_marker(response.result)
