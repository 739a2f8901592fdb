"""An A2A message as a graph's input (R49-R52, R56)."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.channels import LastValue
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel._write import ChannelWrite, ChannelWriteTupleEntry

from aion_core.agents.inbound import inbox_of, text_of
from aion_core.agents.langgraph.thread import INBOX, MESSAGES, OUTBOX, Graph
from aion_core.ports import Asked


def graph_input(graph: Graph, asked: Asked, before: Sequence[BaseMessage] = ()) -> dict[str, Any]:
    """Return the input of the turn, for the channels that the graph's state has; all of it to a functional graph.

    `messages`: one HumanMessage, where the message has text; its content is the text parts in order (R49, R50) and its
    id the messageId, so that a repeat adds nothing (R52). `a2a_inbox`: the envelope (R51). `a2a_outbox`: empty, since
    what an earlier turn put there was that turn's.

    `before` are the messages of the state as the turn finds it: tool calls that an earlier turn left open, because it
    failed or was cut, are answered first, since no model takes a conversation with an open one.
    """
    text = text_of(asked)
    human = [HumanMessage(content=text, id=asked.message.message_id)] if text else []
    given = {
        MESSAGES: [*answers_to_open_calls(before), *human],
        INBOX: inbox_of(asked),
        OUTBOX: None,
    }
    if not isinstance(graph, CompiledStateGraph):
        # A functional graph has no state: its entrypoint is handed all there is.
        return {MESSAGES: given[MESSAGES], INBOX: given[INBOX]}
    return {channel: value for channel, value in given.items() if channel in graph.channels}


def with_envelopes(graph: Graph) -> Graph:
    """Return the graph with its input let through to `a2a_inbox` and `a2a_outbox`, where its input schema has them not.

    LangGraph's START writes what the input schema names; what of the envelopes that leaves out is written beside it.
    """
    if not isinstance(graph, CompiledStateGraph):
        return graph
    named = graph.builder.schemas[graph.builder.input_schema]
    left_out = [
        channel
        for channel in (INBOX, OUTBOX)
        if channel not in named and isinstance(graph.channels.get(channel), LastValue)
    ]
    if not left_out:
        return graph

    def envelopes(given: Any) -> list[tuple[str, Any]]:
        return [(channel, given[channel]) for channel in left_out if isinstance(given, dict) and channel in given]

    # First: a conditional edge at START may look at them.
    writers = [ChannelWrite((ChannelWriteTupleEntry(mapper=envelopes),)), *graph.nodes[START].writers]
    return graph.copy(update={"nodes": {**graph.nodes, START: graph.nodes[START].copy({"writers": writers})}})


def clears_outbox(graph: Graph) -> bool:
    """Tell whether the input empties the outbox of an earlier turn: a reducer may not let it through."""
    return isinstance(graph.channels.get(OUTBOX), LastValue)


def answers_to_open_calls(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return an answer for each tool call that has none: it was canceled."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return [
        ToolMessage("canceled", tool_call_id=call["id"], name=call["name"], status="error")
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] and call["id"] not in answered
    ]
