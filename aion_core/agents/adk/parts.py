"""A2A parts as ADK has them, and back (R83, R84). Pure."""

import json
from collections.abc import Iterable
from typing import Any

from google.genai import types as genai
from google.protobuf.json_format import MessageToDict, ParseDict

from aion_core.authoring.json_forms import with_integers
from aion_core.protocol.message_rules import guessed_type
from aion_core.protocol.types import Part

OCTETS = "application/octet-stream"


def content_parts(parts: Iterable[Part]) -> list[genai.Part]:
    """Return A2A parts as parts of ADK's Content; one that holds nothing is left out.

    A file's MIME type is what it says, else what its name is guessed to be, else `application/octet-stream` (R84).
    """
    found: list[genai.Part] = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                if part.text:
                    found.append(genai.Part(text=part.text))
            case "raw":
                blob = genai.Blob(mime_type=_mime_type(part), data=part.raw, display_name=part.filename or None)
                found.append(genai.Part(inline_data=blob))
            case "url":
                file = genai.FileData(mime_type=_mime_type(part), file_uri=part.url, display_name=part.filename or None)
                found.append(genai.Part(file_data=file))
            case "data":
                data = with_integers(MessageToDict(part.data))
                found.append(genai.Part(text=json.dumps(data, ensure_ascii=False)))
            case _:
                pass
    return found


def a2a_parts(parts: Iterable[genai.Part]) -> list[Part]:
    """Return what of ADK's parts is for the client, in their order.

    Text is text, a file is a file by its content or its address, code and what came of running it are data. Thoughts
    are the model's own, and calls of tools the agent's.
    """
    return [made for part in parts if not part.thought and (made := _a2a_part(part)) is not None]


def file_parts(saved: genai.Part) -> list[Part]:
    """Return a saved artifact's parts: one also where the file is empty, none where the client has nothing of it."""
    if parts := a2a_parts([saved]):
        return parts
    if saved.inline_data is not None:
        return [Part(raw=b"", media_type=saved.inline_data.mime_type or OCTETS)]
    return [Part(text="")] if saved.text == "" and not saved.thought else []


def text_of(parts: Iterable[genai.Part]) -> str:
    """Return the text that the parts hold for the client."""
    return "".join(part.text for part in parts if part.text and not part.thought)


def _a2a_part(part: genai.Part) -> Part | None:
    if part.text:
        return Part(text=part.text)
    if part.inline_data is not None and part.inline_data.data:
        blob = part.inline_data
        return Part(raw=blob.data, media_type=blob.mime_type or OCTETS, filename=blob.display_name or "")
    if part.file_data is not None and part.file_data.file_uri:
        file = part.file_data
        return Part(url=file.file_uri, media_type=file.mime_type or "", filename=file.display_name or "")
    if part.executable_code is not None:
        return data_part({"executableCode": part.executable_code.model_dump(mode="json", exclude_none=True)})
    if part.code_execution_result is not None:
        return data_part({"codeExecutionResult": part.code_execution_result.model_dump(mode="json", exclude_none=True)})
    return None


def data_part(data: Any) -> Part:
    """Return a part of this data; what JSON cannot say is said as text."""
    plain = json.loads(json.dumps(data, default=str), parse_constant=lambda constant: None)
    return ParseDict({"data": plain}, Part())


def _mime_type(part: Part) -> str:
    named = part.filename or (part.url.partition("?")[0] if part.WhichOneof("content") == "url" else "")
    return part.media_type or guessed_type(named)[0] or OCTETS
