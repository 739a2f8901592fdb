"""Conversion between parts of A2A messages, content of LangChain messages, and values of a graph's state."""

import base64
import codecs
import inspect
import json
import logging
import re
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Union

from a2a.utils.errors import A2AError
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from msgspec import Struct
from pydantic import BaseModel, ValidationError

from aion_core.agents.inbound import empty_file_text
from aion_core.agents.langgraph.media import MEDIA, Block, media_of
from aion_core.agents.readable_json import json_part
from aion_core.authoring.context import AionContext, get_aion_context
from aion_core.errors import AgentFailed
from aion_core.protocol.aion.extensions import is_payload
from aion_core.protocol.message_rules import ANY_FILE, type_of
from aion_core.protocol.types import Message, Part, Role, strict_json, to_json, utf8

logger = logging.getLogger(__name__)

Graph = Pregel[Any, Any, Any, Any]

MESSAGES, INBOX, OUTBOX = "messages", "a2a_inbox", "a2a_outbox"
"""Keys of a graph's state for messages: LangChain's messages, the received A2A message, and A2A messages to send."""

ROOT = "__root__"
"""LangGraph's name for the channel of a state without keys."""

MAX_FILE_VALUES = 100_000
"""Maximum number of values in a JSON file that fills the state. The turn stores the state several times."""


def has_single_value(graph: Graph) -> bool:
    """Return True if the graph's state is one value without keys, as that of `StateGraph(dict)`."""
    return isinstance(graph, CompiledStateGraph) and ROOT in graph.builder.schemas[graph.builder.input_schema]


# ── From A2A to LangChain ─────────────────────────────────────────────────────────────────────────────────────────────


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
        return {"type": "text", "text": _decoded(part)}
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


def _decoded(part: Part) -> str:
    """Decode a text file: UTF-16 with a byte order mark, or the charset of its media type, by default UTF-8."""
    found = _CHARSET.search(part.media_type)
    is_utf16 = part.raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = part.raw.decode("utf-16" if is_utf16 else found[1] if found else "utf-8", "replace")
    except LookupError:
        text = part.raw.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


# ── From LangChain to A2A ─────────────────────────────────────────────────────────────────────────────────────────────


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


# ── Input of a graph without messages ─────────────────────────────────────────────────────────────────────────────────

JSON, TEXT = "application/json", "text/plain"


class InputFields(Struct, frozen=True):
    """Keys of a graph's input schema that a client's message can fill, in a graph that reads no LangChain messages."""

    names: Sequence[str]
    """All keys, filled by an object in a data part."""
    text: str | None
    """Key filled by a text, or None without a key for texts."""
    is_first: bool = False
    """True if other keys could be filled by the text, too."""

    def values(self, parts: Sequence[Part]) -> tuple[dict[str, Any], list[str]]:
        """Return the state's values from message parts, and a description of each part that fits no key."""
        values: dict[str, Any] = {}
        unused: list[str] = []
        texts: list[str] = []
        for part in parts:
            kind, value = _read(part)
            if is_payload(part):
                continue
            if kind == "text":
                texts.append(value)
            elif isinstance(value, Mapping):
                values |= {key: item for key, item in value.items() if key in self.names}
                unused += [f"the key {key}" for key in value if key not in self.names]
            else:
                unused.append("data that is not an object" if kind == "data" else value)
        if text := "".join(texts):
            if self.text is None or self.text in values:
                unused.append("a text")
            else:
                values[self.text] = text
        return values, unused

    def accepted(self) -> str:
        """Return a description of the accepted messages, for the end of a sentence."""
        keys = f"a data part with an object of these keys: {', '.join(self.names)}" if self.names else "no content"
        return f"a text for {self.text}, or {keys}" if self.text is not None else keys


def _read(part: Part) -> tuple[str, Any]:
    """Return a part's kind ("text", "data" or "file") and its value; for a file, its description in an error.

    Text files count as text, valid JSON files as data.
    """
    kind, media_type = part.WhichOneof("content"), type_of(part) or ""
    if kind == "raw" and media_type == JSON:
        try:
            return "data", strict_json(part.raw.removeprefix(codecs.BOM_UTF8), "file", most_values=MAX_FILE_VALUES)
        except A2AError as error:
            return "file", f"a file ({error})"
    if kind == "raw" and media_type.startswith("text/"):
        return "text", _decoded(part)
    return {"text": ("text", part.text), "data": ("data", to_json(part.data))}.get(str(kind), ("file", "a file"))


def input_fields(graph: Graph) -> InputFields | None:
    """Return the keys of the input schema that a message can fill; None if the graph reads messages or the inbox."""
    if not isinstance(graph, CompiledStateGraph) or INBOX in graph.channels:
        return None
    schema = graph.builder.input_schema
    named = graph.builder.schemas[schema]
    if MESSAGES in named or ROOT in named:
        return None
    names = [name for name in named if name in graph.builder.channels and name != OUTBOX]
    return InputFields(names, *_text_field(schema, names))


def state_values(graph: Graph, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the values that message parts give to the state; empty for a graph that reads messages."""
    found = input_fields(graph)
    return found.values(parts)[0] if found is not None else {}


def check_input(graph: Graph, parts: Sequence[Part], before: Mapping[str, Any]) -> None:
    """Raise AgentFailed if a part of the message cannot reach the graph, or does not fit its pydantic schema.

    `before` has the values of the state before the turn, which may supply required fields that the message lacks. A
    graph that reads the AionContext gets the whole message from there.
    """
    found = input_fields(graph)
    if found is None:
        return
    values, unused = found.values(parts)
    if unused and not _reads_context(graph):
        raise AgentFailed(f"The agent cannot read {unused[0]} in this message. It takes {found.accepted()}.")
    schema = graph.builder.input_schema if isinstance(graph, CompiledStateGraph) else None
    if values and isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            schema(**{**{key: value for key, value in before.items() if key in found.names}, **values})
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, problem["loc"]))
            raise AgentFailed(f"The message does not fit the agent's input: {place}: {problem['msg']}.") from error


def input_modes(graph: Graph) -> tuple[str, ...]:
    """Return the media types that can fill the graph's state; empty for a graph that reads any message."""
    found = input_fields(graph)
    if found is None or _reads_context(graph):
        return ()
    return (TEXT, JSON) if found.text is not None else (JSON,)


def input_advice(graph: Graph, modes: Collection[str] | None) -> str:
    """Return a warning for the author about content that the graph cannot read; "" if there is none.

    `modes` has the media types in aion.yaml. If it is None, the agent's card lists the result of `input_modes`.
    """
    found, true = input_fields(graph), input_modes(graph)
    promised = {TEXT, ANY_FILE} & set(modes or ()) - set(true)
    if found is not None and true and found.is_first and TEXT in (modes or true):
        return (
            f"A text fills {found.text}, the first of several str fields of the graph's state. "
            "Name the input with an input_schema, StateGraph(State, input_schema=…), if it should fill another one."
        )
    if found is None or not true or (modes is not None and not promised) or (modes is None and TEXT in true):
        return ""
    do = (
        f"Set `input_modes: [{', '.join(true)}]` in aion.yaml, and the server refuses other content. "
        if promised
        else ""
    )
    more = "" if found.text is not None else "A text needs an input_schema with one str field."
    return f"The graph's state has no messages. It takes {found.accepted()}. {do}{more}".rstrip()


def _text_field(schema: Any, names: Collection[str]) -> tuple[str | None, bool]:
    """Return the `str` field to fill with a text: the only one, else the only required one, else the first.

    The second value is True if the field was chosen only because it is the first of several.
    """
    try:
        hints = typing.get_type_hints(schema, include_extras=True)
    except (NameError, TypeError):
        # Fill no field if Python cannot resolve a name in the schema's annotations.
        return None, False
    texts = {name: _is_text(hint) for name, hint in hints.items() if name in names}
    possible = [name for name, is_text in texts.items() if is_text]
    required = [name for name in possible if name in set(_required(schema))]
    only = possible if len(possible) == 1 else required if len(required) == 1 else []
    return next(iter([*only, *required, *possible]), None), not only and bool(possible)


def _is_text(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (Annotated, typing.Required, typing.NotRequired):
        return _is_text(typing.get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return set(typing.get_args(hint)) == {str, type(None)}
    return hint is str


def _required(schema: Any) -> Iterator[str]:
    if is_dataclass(schema):
        yield from (each.name for each in fields(schema) if each.default is each.default_factory is MISSING)
    elif isinstance(schema, type) and issubclass(schema, BaseModel):
        yield from (name for name, each in schema.model_fields.items() if each.is_required())
    else:
        yield from getattr(schema, "__required_keys__", ())


def _reads_context(graph: Graph) -> bool:
    """Return True if the graph's context is the AionContext, or its nodes' modules import `get_aion_context`."""
    if getattr(graph, "context_schema", None) is AionContext:
        return True
    functions = [getattr(node.bound, name, None) for node in graph.nodes.values() for name in ("func", "afunc")]
    modules = [getattr(inspect.unwrap(each), "__globals__", {}) for each in functions if callable(each)]
    return any(value is get_aion_context for module in modules for value in module.values())
