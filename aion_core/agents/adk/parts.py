"""Conversion between A2A parts and ADK content. Pure functions."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.adk.events import Event
from google.genai import types as genai

from aion_core.agents.message_text import empty_file_text, text_of
from aion_core.agents.plain_json import json_part, plain_json
from aion_core.authoring.remote import is_file
from aion_core.engine.agent import TurnRequest
from aion_core.protocol.media_types import ANY_FILE, type_of
from aion_core.protocol.message_json import to_json
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Part

DATA_START, DATA_END = b"<a2a_datapart_json>", b"</a2a_datapart_json>"
"""Tags around the JSON of an A2A data part that ADK has received from another agent. ADK passes it on as a text file."""


def content_of(request: TurnRequest) -> genai.Content:
    """Convert a turn's message to ADK content.

    ADK requires at least one part. So a message without a usable part becomes one text part, which may be empty.
    """
    parts = content_parts(request.message.parts)
    return genai.Content(role="user", parts=parts or [genai.Part(text=text_of(request))])


def content_parts(parts: Iterable[Part]) -> list[genai.Part]:
    """Convert A2A parts to ADK parts, and skip empty texts.

    The MIME type of a file is that of `type_of`, with the parameters of its `mediaType`.
    """
    converted: list[genai.Part] = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                if part.text:
                    converted.append(genai.Part(text=part.text))
            case "raw" if text := empty_file_text(part):
                converted.append(genai.Part(text=text))
            case "raw":
                blob = genai.Blob(mime_type=_mime_type(part), data=part.raw, display_name=part.filename or None)
                converted.append(genai.Part(inline_data=blob))
            case "url":
                file = genai.FileData(mime_type=_mime_type(part), file_uri=part.url, display_name=part.filename or None)
                converted.append(genai.Part(file_data=file))
            case "data":
                data = to_json(part.data)
                converted.append(genai.Part(text=json.dumps(data, ensure_ascii=False)))
            case _:
                pass
    return converted


def a2a_parts(parts: Iterable[genai.Part]) -> list[Part]:
    """Convert ADK parts to A2A parts, in order.

    Code and its result become data parts. Thoughts and tool calls are skipped, because clients must not see them.
    """
    return [made for part in parts if not part.thought and (made := _a2a_part(part)) is not None]


def file_parts(saved: genai.Part) -> list[Part]:
    """Convert a saved ADK artifact to A2A parts. An empty file becomes one part."""
    if parts := a2a_parts([saved]):
        return parts
    if saved.inline_data is not None:
        return [_file_part(Part(raw=b""), saved.inline_data)]
    return [Part(text="")] if saved.text == "" and not saved.thought else []


def received_files(parts: Iterable[genai.Part]) -> Iterator[Part]:
    """Yield the files that a remote agent has sent. ADK marks those of a task that goes on as thoughts."""
    # A generator would keep the last file, which may be large.
    made = map(_a2a_part, (part for part in parts if not part.text))
    return filter(is_file, filter(None, made))


def parts_of_event(event: Event) -> Sequence[genai.Part]:
    """Return the parts of an event's content."""
    return (event.content.parts if event.content is not None else None) or ()


def visible_text(parts: Iterable[genai.Part]) -> str:
    """Return the text of ADK parts without the model's thoughts."""
    return "".join(part.text for part in parts if part.text and not part.thought)


def part_of(value: object) -> Part:
    """Return a text part for a text, and a data part for another value. Raises AgentFailed, see `json_part`."""
    return Part(text=utf8(value)) if isinstance(value, str) else json_part(value)


def tool_results(event: Event) -> list[Part]:
    """Return results of tools with `skip_summarization` as A2A parts, because ADK sends such results to the client."""
    actions = event.actions
    waits = actions.requested_auth_configs or actions.requested_tool_confirmations
    if not actions.skip_summarization or actions.escalate or waits:
        return []
    results = [response.response for response in event.get_function_responses() if response.response]
    # Unwrap a result without a dict, because ADK puts such a result into a dict with the key `result`.
    return [part_of(result["result"] if list(result) == ["result"] else result) for result in results]


MODEL_METADATA = ("usage_metadata", "citation_metadata", "grounding_metadata")
"""Fields of an ADK event with metadata of its model call that a client receives."""


def model_metadata(event: Event) -> dict[str, Any]:
    """Return the token usage, citations and grounding of an event's model call.

    They have the keys and forms of ADK's own A2A server, so that ADK's `RemoteA2aAgent` restores them.
    """
    given = {f"adk_{name}": value for name in MODEL_METADATA if (value := getattr(event, name)) is not None}
    return {
        key: plain_json(value.model_dump(mode="json", by_alias=True, exclude_none=True)) for key, value in given.items()
    }


def _a2a_part(part: genai.Part) -> Part | None:
    if part.text:
        return Part(text=utf8(part.text))
    if part.inline_data is not None and part.inline_data.data:
        content = part.inline_data.data
        return _received_data(content) or _file_part(Part(raw=content), part.inline_data)
    if part.file_data is not None and part.file_data.file_uri:
        return _file_part(Part(url=part.file_data.file_uri), part.file_data)
    if part.executable_code is not None:
        return json_part({"executableCode": part.executable_code.model_dump(mode="json", exclude_none=True)})
    if part.code_execution_result is not None:
        return json_part({"codeExecutionResult": part.code_execution_result.model_dump(mode="json", exclude_none=True)})
    return None


def _file_part(part: Part, file: genai.Blob | genai.FileData) -> Part:
    part.filename = utf8(file.display_name or "")
    part.media_type = file.mime_type or type_of(part) or ANY_FILE
    return part


def _received_data(content: bytes) -> Part | None:
    """Return the data part that ADK has wrapped in a text file, or None for any other file."""
    if not (content.startswith(DATA_START) and content.endswith(DATA_END)):
        return None
    try:
        return json_part(json.loads(content[len(DATA_START) : -len(DATA_END)]))
    except ValueError:
        return None


def _mime_type(part: Part) -> str:
    """Return a file's media type with its parameters, because those of raw audio are its format."""
    _, separator, parameters = part.media_type.partition(";")
    return f"{type_of(part) or ANY_FILE}{separator}{parameters}"
