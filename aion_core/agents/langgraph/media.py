"""Conversion of the files in LangChain messages to A2A parts."""

import base64
import binascii
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

from langchain_core.messages import BaseMessage

from aion_core.authoring.json_values import bytes_of
from aion_core.protocol.media_types import ANY_FILE, type_of
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Part

logger = logging.getLogger(__name__)

Block = dict[str, Any]
"""Content block of a LangChain message."""

MEDIA = ("image", "audio", "video", "file", "text-plain")
"""Types of LangChain's content blocks for files."""


def media_of(message: BaseMessage) -> tuple[list[Part], str]:
    """Return the images, audio, videos and files of a message as A2A parts, and the transcript of its audio."""
    blocks = [] if isinstance(message.content, str) else _blocks(message)
    spoken = _spoken(message.additional_kwargs["audio"]) if "audio" in message.additional_kwargs else {}
    media = [part for block in (*blocks, spoken) if (part := _media_part(block)) is not None]
    return media, str(spoken.get("transcript") or "")


def _blocks(message: BaseMessage) -> Sequence[Any]:
    try:
        return message.content_blocks
    except Exception:  # catch every exception, because LangChain fails for some blocks of its version 0
        return message.content


_TYPES = {
    "image_url": "image",
    "input_image": "image",
    "input_audio": "audio",
    "input_file": "file",
    "file_data": "file",
    "media": "file",
}
"""Types of blocks for files: of OpenAI's two APIs and of Google's. Each has the standard type as its value."""
_KEYS = {"image_url": "url", "file_url": "url", "file_uri": "url", "file_data": "base64", "data": "base64"}
"""Keys of these blocks, and of blocks of LangChain 0. Each has the standard key as its value."""


def _standard(block: Mapping[str, Any]) -> Block:
    """Return a block for a file in LangChain's standard form. Other blocks keep their type.

    LangChain's own conversion is not enough: in the message of a model, it converts only blocks of the model's provider.
    """
    if block.get("type") == "non_standard" and isinstance(block.get("value"), Mapping):
        block = block["value"]
    given = dict(block)
    for key in ("image_url", "file", "input_audio"):
        if isinstance(inner := given.get(key), Mapping):
            given |= {**inner, key: None, "type": given.get("type")}
    standard = given | {"type": _TYPES.get(str(given.get("type")), given.get("type"))}
    for key, name in _KEYS.items():
        if value := given.get(key):
            value = base64.b64encode(value).decode() if isinstance(value, bytes) else value
            standard["url" if str(value)[:5].lower() == "data:" else name] = value
    if given.get("source_type") == "text":
        standard |= {"text": given.get("text") or given.get("url"), "url": ""}
        standard.setdefault("mime_type", "text/plain")
    if given.get("format") and standard["type"] == "audio":
        standard.setdefault("mime_type", f"audio/{given['format']}")
    return standard


def _media_part(block: Any) -> Part | None:
    if not isinstance(block, Mapping) or (block := _standard(block))["type"] not in MEDIA:
        return None
    media_type, url = str(block.get("mime_type") or ""), str(block.get("url") or "")
    encoded, raw = block.get("base64") or "", utf8(str(block.get("text") or "")).encode()
    if url[:5].lower() == "data:":
        header, _, given = url[5:].partition(",")
        media_type = media_type or header.partition(";")[0]
        raw = unquote_to_bytes(given)
        encoded, raw = (raw.decode("ascii", "replace"), b"") if header.lower().endswith(";base64") else ("", raw)
    try:
        raw = raw or bytes_of(encoded, f"The base64 of a content block of type {block['type']}")
    except ValueError as error:
        logger.warning("%s The client does not receive this file.", error)
        return None
    part = Part(media_type=media_type, filename=_name_of(block))
    if raw:
        part.raw = raw
    elif url:
        part.url = url
    else:
        # Skip a file_id, because only the model's provider can resolve it.
        return None
    part.media_type = part.media_type or type_of(part) or ""
    if part.media_type == ANY_FILE and not media_type:
        part.media_type = _detected_type(block["type"], raw) or ANY_FILE
    return part


_FIRST_BYTES = {
    "image": {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"},
    "audio": {
        b"RIFF": "wav",
        b"ID3": "mpeg",
        b"OggS": "ogg",
        b"fLaC": "flac",
        b"\xff\xf1": "aac",
        b"\xff\xf9": "aac",
        b"\xff": "mpeg",
    },
}
"""Subtypes of images and audio by the first bytes of a file."""


def _detected_type(kind: str, content: bytes) -> str | None:
    """Return the media type of an image or audio by its first bytes, or None."""
    subtypes = _FIRST_BYTES.get(kind, {})
    return next((f"{kind}/{subtype}" for first, subtype in subtypes.items() if content.startswith(first)), None)


def _spoken(audio: Any) -> Block:
    """Return a content block for the audio that LangChain's OpenAI and Google packages store outside of the content."""
    if isinstance(audio, bytes):
        audio = {"data": base64.b64encode(audio).decode()}
    if not isinstance(audio, Mapping):
        return {}
    data = str(audio.get("data") or "")
    with suppress(binascii.Error):
        start = base64.b64decode(data[:8])
        media_type = _detected_type("audio", start) or "audio/pcm"  # audio in any other form has no header
        return {"type": "audio", "base64": data, "mime_type": media_type, "transcript": audio.get("transcript")}
    return {}


def _name_of(block: Mapping[str, Any]) -> str:
    extras = block.get("extras")
    named: Sequence[Any] = (extras.get("filename"), extras.get("name")) if isinstance(extras, Mapping) else ()
    return next((utf8(str(name)) for name in (*named, block.get("filename"), block.get("name")) if name), "")
