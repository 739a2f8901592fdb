"""What a graph streams, as chunks and a reply."""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

from aion_core.ports import Chunk
from aion_core.protocol.types import Message, Part, Role


def chunk_of(payload: tuple[Any, Mapping[str, Any]]) -> Chunk | None:
    """Return the text that a model has just spoken, None where the `messages` payload is anything else.

    LangGraph sends whole messages here too, tool results among them: only a model's chunk is streamed.
    """
    message = payload[0]
    if isinstance(message, AIMessageChunk) and (text := message.text):
        return Chunk(str(text), message.id or "")
    return None


def new_messages(values: Any, known: frozenset[str]) -> list[BaseMessage]:
    """Return the messages of the final state that are not among the known ones, in order (D7)."""
    messages = values.get("messages", ()) if isinstance(values, Mapping) else ()
    return [message for message in messages if isinstance(message, BaseMessage) and message.id not in known]


def reply_of(added: Iterable[BaseMessage], spoken: str) -> Message | None:
    """Return the turn's answer: its last AIMessage with text, else what the last model call spoke (R80, R81, D7)."""
    said = [message for message in added if isinstance(message, AIMessage) and message.text]
    if said:
        return _message(str(said[-1].text), said[-1].id or "")
    return _message(spoken, "") if spoken else None


def _message(text: str, message_id: str) -> Message:
    return Message(role=Role.ROLE_AGENT, message_id=message_id, parts=[Part(text=text)])
