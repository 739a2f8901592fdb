"""An A2A message as a graph's input."""

import hashlib
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.pregel import Pregel

from aion_core.ports import Asked, ContextKey
from aion_core.protocol.types import Message


def graph_input(graph: Pregel[Any, Any, Any, Any], asked: Asked) -> dict[str, Any]:
    """Return the input of the turn: one HumanMessage, where the message has text and the state has `messages`.

    Its content is the text parts in order (R49, R50) and its id the messageId, so that a repeat adds nothing (R52).
    """
    if "messages" not in graph.channels:
        return {}
    text = text_of(asked.message)
    return {"messages": [HumanMessage(content=text, id=asked.message.message_id)] if text else []}


def text_of(message: Message) -> str:
    """Return the message's text parts, in order, as one text."""
    return "".join(part.text for part in message.parts if part.WhichOneof("content") == "text")


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's persistence id: of this owner, agent and context and of no other (R56)."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()
