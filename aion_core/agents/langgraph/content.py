"""Conversion between parts of A2A messages and content of LangChain messages."""

import base64
import binascii
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from aion_core.protocol.aion.extensions import is_payload
from aion_core.protocol.message_rules import ANY_FILE, type_of
from aion_core.protocol.types import Message, Part, Role, to_json

Block = dict[str, Any]
"""Content block of a LangChain message."""

MEDIA = ("image", "audio", "video", "file")
"""Types of LangChain's content blocks for files."""

# ── From A2A to LangChain ─────────────────────────────────────────────────────────────────────────────────────────────


def content_of(parts: Iterable[Part], *, files: bool) -> str | list[Block]:
    """Return the content of a HumanMessage for message parts: a text, or content blocks in the order of the parts.

    With `files` the blocks include images, audio, video, files and data; without, only text counts. The events of the
    Aion extensions are no content.
    """
    blocks: list[Block] = []
    for part in parts:
        is_text = part.WhichOneof("content") == "text"
        if is_payload(part) or not (is_text or files):
            continue
        block = {"type": "text", "text": part.text} if is_text else _block_of(part)
        if is_text and blocks and blocks[-1].get("joins"):
            blocks[-1]["text"] += part.text
        else:
            blocks.append({**block, "joins": True} if is_text else block)
    for block in blocks:
        block.pop("joins", None)
    texts = [block for block in blocks if block["type"] == "text"]
    return blocks if len(blocks) > len(texts) or len(texts) > 1 else "".join(block["text"] for block in texts)


def _block_of(part: Part) -> Block:
    if part.WhichOneof("content") == "data":
        return {"type": "text", "text": json.dumps(to_json(part.data), ensure_ascii=False)}
    media_type = type_of(part) or ANY_FILE
    if part.WhichOneof("content") == "raw" and media_type.startswith("text/"):
        return {"type": "text", "text": part.raw.decode("utf-8", "replace")}
    kind = media_type.partition("/")[0]
    block: Block = {"type": kind if kind in MEDIA else "file"}
    if part.WhichOneof("content") == "raw":
        block |= {"base64": base64.b64encode(part.raw).decode(), "mime_type": media_type}
    else:
        block |= {"url": part.url} | ({"mime_type": media_type} if media_type != ANY_FILE else {})
    # Providers such as OpenAI require the name of a file.
    return block | ({"extras": {"filename": part.filename}} if part.filename else {})


# ── From LangChain to A2A ─────────────────────────────────────────────────────────────────────────────────────────────


def message_of(message: AIMessage) -> Message:
    """Convert an AIMessage to an A2A message with the same id: its text as one part, then its files."""
    media = media_parts(message)
    text = [Part(text=utf8(str(message.text)))] if message.text or not media else []
    return Message(role=Role.ROLE_AGENT, message_id=message.id or "", parts=[*text, *media])


def media_parts(message: BaseMessage) -> list[Part]:
    """Return the images, audio, videos and files in the content of a message as parts."""
    if isinstance(message.content, str):
        return []
    return [part for block in message.content_blocks if (part := _media_part(block)) is not None]


def has_content(message: BaseMessage) -> bool:
    """Return True if the message has a text or a file for the client."""
    return bool(message.text or media_parts(message))


def content_parts(message: BaseMessage) -> list[Part]:
    """Return the text and the files of a tool's result as parts."""
    return [*([Part(text=utf8(str(message.text)))] if message.text else []), *media_parts(message)]


def data_part(value: Any) -> Part | None:
    """Return a data part with a value as JSON, from pydantic models, dataclasses and plain values; None without one."""
    plain = as_plain(value)
    if plain is None or plain in ({}, []):
        return None
    try:
        return ParseDict({"data": json.loads(json.dumps(plain, default=str))}, Part())
    except (ParseError, ValueError, TypeError):
        # The value is not finite, or nested too deep.
        return None


def as_plain(value: Any) -> Any:
    """Convert pydantic models, dataclasses and messages within a value to plain values."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return as_plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_plain(item) for item in value]
    return value


def utf8(text: str) -> str:
    """Return the text without halves of surrogate pairs, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _media_part(block: Any) -> Part | None:
    if not isinstance(block, Mapping):
        return None
    if block.get("type") == "non_standard" and isinstance(block.get("value"), Mapping):
        block = block["value"]
    image = block.get("image_url")
    if block.get("type") == "image_url" and image:
        # The form of OpenAI's chat completions.
        block = {"type": "image", "url": image.get("url", "") if isinstance(image, Mapping) else str(image)}
    if block.get("type") not in MEDIA:
        return None
    media_type, url = str(block.get("mime_type") or ""), str(block.get("url") or "")
    encoded = str(block.get("base64") or "")
    if url.startswith("data:"):
        header, _, encoded = url.partition(",")
        media_type = media_type or header.removeprefix("data:").partition(";")[0]
    try:
        raw = base64.b64decode(encoded)
    except binascii.Error:
        return None
    part = Part(media_type=media_type, filename=_name_of(block))
    if raw:
        part.raw = raw
    elif url:
        part.url = url
    else:
        # A file_id is known to the model's provider only.
        return None
    part.media_type = part.media_type or (type_of(part) or "")
    return part


def _name_of(block: Mapping[str, Any]) -> str:
    extras = block.get("extras")
    named: Sequence[Any] = (extras.get("filename"), extras.get("name")) if isinstance(extras, Mapping) else ()
    return next((str(name) for name in (*named, block.get("filename"), block.get("name")) if name), "")


def ai_messages(messages: Sequence[BaseMessage]) -> Iterator[AIMessage]:
    """Yield the AIMessages of a list of messages, the last first."""
    return (message for message in reversed(messages) if isinstance(message, AIMessage))
