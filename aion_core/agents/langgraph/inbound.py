"""An A2A message as a graph's input (R49-R52, R56)."""

import hashlib
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.pregel import Pregel

from aion_core.agents.context import inbox_of, text_of
from aion_core.ports import Asked, ContextKey

INBOX, OUTBOX, MESSAGES = "a2a_inbox", "a2a_outbox", "messages"
"""The channels of a state that mean something to us, where the author has them."""


def graph_input(graph: Pregel[Any, Any, Any, Any], asked: Asked) -> dict[str, Any]:
    """Return the input of the turn, for the channels that the graph's state has.

    `messages`: one HumanMessage, where the message has text; its content is the text parts in order (R49, R50) and its
    id the messageId, so that a repeat adds nothing (R52). `a2a_inbox`: the envelope (R51). `a2a_outbox`: empty, since
    what an earlier turn put there was that turn's.
    """
    given: dict[str, Any] = {}
    if MESSAGES in graph.channels:
        text = text_of(asked)
        given[MESSAGES] = [HumanMessage(content=text, id=asked.message.message_id)] if text else []
    if INBOX in graph.channels:
        given[INBOX] = inbox_of(asked)
    if OUTBOX in graph.channels:
        given[OUTBOX] = None
    return given


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's persistence id: of this owner, agent and context and of no other (R56)."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()
