"""An A2A message as a graph's input (R49-R52, R56)."""

import hashlib
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from aion_core.agents.context import inbox_of, text_of
from aion_core.ports import Asked, ContextKey

INBOX, OUTBOX, MESSAGES = "a2a_inbox", "a2a_outbox", "messages"
"""The channels of a state that mean something to us, where the author has them."""


def graph_input(graph: Pregel[Any, Any, Any, Any], asked: Asked) -> dict[str, Any]:
    """Return the input of the turn, for the channels that the graph's state has; all of it to a functional graph.

    `messages`: one HumanMessage, where the message has text; its content is the text parts in order (R49, R50) and its
    id the messageId, so that a repeat adds nothing (R52). `a2a_inbox`: the envelope (R51). `a2a_outbox`: empty, since
    what an earlier turn put there was that turn's.
    """
    text = text_of(asked)
    given = {
        MESSAGES: [HumanMessage(content=text, id=asked.message.message_id)] if text else [],
        INBOX: inbox_of(asked),
        OUTBOX: None,
    }
    if not isinstance(graph, CompiledStateGraph):
        # A functional graph has no state: its entrypoint is handed all there is.
        return {MESSAGES: given[MESSAGES], INBOX: given[INBOX]}
    return {channel: value for channel, value in given.items() if channel in graph.channels}


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's persistence id: of this owner, agent and context and of no other (R56)."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()
