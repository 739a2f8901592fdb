"""Input of a graph's turn."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.channels import LastValue
from langgraph.graph.state import CompiledStateGraph

from aion_core.agents.langgraph.canceled_calls import canceled_responses
from aion_core.agents.langgraph.graph import INBOX, MESSAGES, OUTBOX, ROOT, Graph, has_single_value
from aion_core.agents.langgraph.parts import content_of
from aion_core.agents.turn_context import inbox_of
from aion_core.engine.agent import TurnRequest


def turn_input(graph: Graph, request: TurnRequest, before: Sequence[BaseMessage] = ()) -> Any:
    """Return the turn's input: a dict for the channels of the graph's state, or a list for a state that is a list.

    `messages` has a HumanMessage with the text of the turn's message, and its files and data unless the graph reads
    them from `a2a_inbox`. The id of the HumanMessage is the messageId, so that a repeated turn does not add the message
    twice. `a2a_inbox` is the turn's A2AInbox. `a2a_outbox` is None, which clears the outbox of an earlier turn.
    `before` has the messages in the state. If a failed or lost turn has left tool calls without a result, the input
    begins with results "canceled", because models reject a conversation with such calls.
    """
    content: Any = content_of(request.message.parts, files=INBOX not in graph.channels)
    message_id = request.message.message_id
    if any(message.id == message_id and not isinstance(message, HumanMessage) for message in before):
        # Use another id: a reducer such as `add_messages` would replace the agent's message by the client's.
        message_id = f"client-{message_id}"
    human = [HumanMessage(content=content, id=message_id)] if content else []
    if has_single_value(graph):
        # The input replaces a state without a reducer. A reducer is that of a list, such as `add_messages`.
        return {MESSAGES: human, INBOX: inbox_of(request)} if isinstance(graph.channels[ROOT], LastValue) else human
    given: dict[str, Any] = {MESSAGES: [*canceled_responses(before), *human]}
    if not isinstance(graph, CompiledStateGraph):
        # Pass the message and the inbox as input, because a functional graph has no state.
        return {**given, INBOX: inbox_of(request)}
    if INBOX in graph.channels:
        given[INBOX] = inbox_of(request)
    return {channel: value for channel, value in {**given, OUTBOX: None}.items() if channel in graph.channels}


def clears_outbox(graph: Graph) -> bool:
    """Return True if the turn's input clears the outbox of an earlier turn. A reducer may prevent this."""
    return isinstance(graph.channels.get(OUTBOX), LastValue)
