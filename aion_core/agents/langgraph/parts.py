"""Conversion between parts of A2A messages and content of LangChain messages."""

import base64
import codecs
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from aion_core.agents.langgraph.media import MEDIA, Block, media_of
from aion_core.agents.message_text import empty_file_text
from aion_core.agents.plain_json import json_part
from aion_core.errors import AgentFailed
from aion_core.protocol.aion.inbound import is_payload
from aion_core.protocol.media_types import ANY_FILE, type_of
from aion_core.protocol.message_json import to_json
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)


def content_of(parts: Iterable[Part], *, files: bool) -> str | list[Block]:
    """Return the content of a HumanMessage: one text, or content blocks in the order of the message parts.

    With `files` the blocks include images, audio, video, files and data, otherwise only text. Events of the Aion
    extensions are not content.
    """
    blocks: list[Block] = []
    for part in parts:
        is_text = part.WhichOneof("content") == "text"
        if is_payload(part) or not (is_text or files):
            continue
        block = {"type": "text", "text": part.text} if is_text else _block_of(part)
        if block.get("text") == "":
            continue  # models such as Anthropic's refuse an empty text
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
    if text := empty_file_text(part):
        return {"type": "text", "text": text}
    media_type = type_of(part) or ANY_FILE
    if part.WhichOneof("content") == "raw" and media_type.startswith("text/"):
        return {"type": "text", "text": decoded_text(part)}
    kind = media_type.partition("/")[0]
    block: Block = {"type": kind if kind in MEDIA else "file"}
    if part.WhichOneof("content") == "raw":
        block |= {"base64": base64.b64encode(part.raw).decode(), "mime_type": media_type}
    else:
        block |= {"url": part.url} | ({"mime_type": media_type} if media_type != ANY_FILE else {})
    # Include the file name: providers such as OpenAI require it.
    return block | ({"extras": {"filename": part.filename}} if part.filename else {})


_CHARSET = re.compile(
    r';\s*charset\s*=\s*"?((?:utf|us-ascii|iso|latin|windows|cp|koi8|gb|big5|shift|euc)[\w-]*)', re.I | re.A
)
"""Matches the charset of a text file's media type. Others of Python's codecs are no charsets, and some are slow."""


def decoded_text(part: Part) -> str:
    """Decode a text file: UTF-16 with a byte order mark, or the charset of its media type, by default UTF-8."""
    found = _CHARSET.search(part.media_type)
    is_utf16 = part.raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = part.raw.decode("utf-16" if is_utf16 else found[1] if found else "utf-8", "replace")
    except LookupError:
        text = part.raw.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def message_of(message: AIMessage) -> Message:
    """Convert an AIMessage to an A2A message with the same id. Its text becomes one part, before its files."""
    parts = content_parts(message) or [Part(text="")]
    return Message(role=Role.ROLE_AGENT, message_id=message.id or "", parts=parts)


def has_content(message: BaseMessage) -> bool:
    """Return True if the message has a text or a file for the client."""
    return bool(message.text) or bool(content_parts(message))


def content_parts(message: BaseMessage) -> list[Part]:
    """Return the text, images, audio, videos and files of a message as A2A parts.

    If the message has no text, use the transcript of its audio, or else the model's refusal.
    """
    has_media = not isinstance(message.content, str) or "audio" in message.additional_kwargs
    media, transcript = media_of(message) if has_media else ([], "")
    text = str(message.text) or transcript or _refusal(message)
    return [Part(text=utf8(text)), *media] if text else media


def _refusal(message: BaseMessage) -> str:
    """Return the reason for an OpenAI model's refusal to answer: langchain-openai does not add it to the text."""
    blocks = [] if isinstance(message.content, str) else message.content
    given = [message.additional_kwargs, *(block for block in blocks if isinstance(block, Mapping))]
    return "".join(str(each["refusal"]) for each in given if each.get("refusal"))


def data_part(value: Any) -> Part | None:
    """Return a data part with a pydantic model, dataclass or plain value as JSON. Return None for an empty value.

    Raises AgentFailed for a value that is nested too deeply or contains itself.
    """
    if value is None or (isinstance(value, dict) and not value):
        return None
    part = json_part(value)
    return part if part.data not in _EMPTY else None


_EMPTY = [json_part(None).data, json_part({}).data, json_part([]).data]


def sent_data(value: Any) -> Part | None:
    """Return a data part as `data_part` does. For a value that cannot be sent, log the reason and return None."""
    try:
        return data_part(value)
    except AgentFailed as error:
        logger.warning("%s", error)
        return None


def ai_messages(messages: Sequence[BaseMessage]) -> Iterator[AIMessage]:
    """Yield the AIMessages in a list of messages, last message first."""
    return (message for message in reversed(messages) if isinstance(message, AIMessage))
