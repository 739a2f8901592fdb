"""Values emitted by a LangGraph node, as received by the StreamWriter."""

import math
import os
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage

from aion.langgraph.stream import emit_data, emit_file, emit_message, emit_task_metadata
from aion_core.authoring.emit import ArtifactEmitted, MessageEmitted, MetadataEmitted
from aion_core.protocol.types import Artifact, Part
from tests.support.rows import each_row


def emitted(emit: Callable[..., None], *given: Any, **named: Any) -> list[Any]:
    written: list[Any] = []
    emit(written.append, *given, **named)
    return written


def test_file_is_emitted_by_url() -> None:
    assert emitted(emit_file, url="https://example.com/report.pdf", mime_type="application/pdf") == [
        ArtifactEmitted(
            Artifact(
                name="file",
                parts=[Part(url="https://example.com/report.pdf", media_type="application/pdf", filename="")],
            ),
            append=False,
            last_chunk=True,
        )
    ]


@pytest.mark.parametrize("encode", [b64encode, encodebytes, urlsafe_b64encode])
def test_file_is_emitted_by_content(encode: Callable[[bytes], bytes]) -> None:
    """Pass the content as base64 text, in each form that Python's functions return."""
    content = bytes(range(256))
    [event] = emitted(emit_file, base64=encode(content).decode(), mime_type="image/png", name="a.png")
    assert event.artifact == Artifact(name="a.png", parts=[Part(raw=content, media_type="image/png", filename="a.png")])


def test_emitted_name_may_be_no_unicode_text() -> None:
    """Emit a file and data by the name of a file of Linux in another encoding."""
    name = os.fsdecode(b"caf\xe9.txt")
    [file] = emitted(emit_file, base64="AAA=", mime_type="text/plain", name=name)
    [data] = emitted(emit_data, {}, name=name)
    assert (file.artifact.name, file.artifact.parts[0].filename, data.artifact.name) == ("caf?.txt",) * 3


def test_file_is_emitted_in_chunks() -> None:
    """Without an artifact id, chunks with the same task and name belong to one artifact."""
    first = emitted(emit_file, base64="AAA=", mime_type="a/b", name="f", is_last_chunk=False)
    last = emitted(emit_file, base64="", mime_type="a/b", name="f", append=True, artifact_id="mine")
    assert [(event.artifact.artifact_id, event.append, event.last_chunk) for event in first + last] == [
        ("", False, False),
        ("mine", True, True),
    ]
    assert last[0].artifact.parts[0].WhichOneof("content") == "raw"


@each_row(
    ("named", "says"),
    [
        ({"mime_type": "a/b"}, "exactly one"),
        ({"mime_type": "a/b", "url": "https://x", "base64": "AAA="}, "exactly one"),
        ({"mime_type": "a/b", "url": ""}, "url is empty"),
        ({"mime_type": "", "url": "https://x"}, "mime_type is empty"),
        ({"mime_type": "a/b", "base64": "not base64"}, "not base64"),
        ({"mime_type": "a/b", "base64": "AAA"}, "not base64"),
        ({"mime_type": "a/b", "base64": "data:image/png;base64,AAA="}, "not base64"),
        ({"mime_type": "a/b", "base64": b"AAA="}, "is bytes"),
        ({"mime_type": "a/b", "url": "https://x", "artifact_id": "aion:stream-delta"}, "begins with aion:"),
    ],
)
def test_invalid_file_is_refused(named: dict[str, Any], says: str) -> None:
    written: list[Any] = []
    with pytest.raises(ValueError, match=says):
        emit_file(written.append, **named)
    assert written == []


@each_row("data", [{"status": "success", "results": []}, [1, {"a": None}], "text", 7, 2.5, True, None])
def test_emitted_data_may_be_any_json_value(data: Any) -> None:
    [event] = emitted(emit_data, data)
    assert (event.artifact.name, event.append, event.last_chunk) == ("data", False, True)
    assert MessageToDict(event.artifact.parts[0]) == {"data": data}


def test_emit_data_copies_data_into_artifact_with_given_fields() -> None:
    data = {"rows": [1]}
    [event] = emitted(emit_data, data, "analysis", True, False, artifact_id="a-1")
    data["rows"].append(2)
    assert event == ArtifactEmitted(
        Artifact(artifact_id="a-1", name="analysis", parts=event.artifact.parts), append=True, last_chunk=False
    )
    assert MessageToDict(event.artifact.parts[0]) == {"data": {"rows": [1]}}


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@each_row("data", [object(), {1, 2}, math.nan, {"x": math.inf}, b"raw", 10**400, "\ud800", nested(40), nested(5000)])
def test_emit_data_refuses_value_that_json_cannot_represent(data: Any) -> None:
    with pytest.raises(ValueError, match=r"emit_data's data .*\.$"):
        emitted(emit_data, data)


def test_emit_message_sends_empty_last_chunk_but_not_empty_message() -> None:
    assert emitted(emit_message, AIMessage("")) == []
    last = AIMessageChunk(content="", id="call", chunk_position="last")
    assert emitted(emit_message, last) == [MessageEmitted(last)]


@pytest.mark.parametrize("message", ["text", HumanMessage("x"), None])
def test_emitted_message_of_unknown_type_is_refused(message: Any) -> None:
    with pytest.raises(TypeError, match="takes an AIMessage or an AIMessageChunk, not"):
        emitted(emit_message, message)


def test_emitted_metadata_loses_reserved_keys() -> None:
    given = {"progress": 100, "aion:network": "x", "own": {"AION:id": 1, "kept": [1]}}
    assert emitted(emit_task_metadata, given) == [MetadataEmitted({"progress": 100, "own": {"kept": [1]}})]
    assert emitted(emit_task_metadata, {"aion:network": "x"}) == []


@pytest.mark.parametrize(("metadata", "error"), [(["x"], TypeError), ({"x": object()}, ValueError), ("x", TypeError)])
def test_emit_task_metadata_refuses_anything_but_json_object(metadata: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="emit_task_metadata"):
        emitted(emit_task_metadata, metadata)
