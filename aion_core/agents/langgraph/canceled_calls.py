"""Tool calls that a canceled or failed turn of a graph has left open."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


def canceled_responses(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return a tool message "canceled" for each tool call in the messages that has no result."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return [
        ToolMessage("canceled", tool_call_id=call["id"], name=call["name"], status="error")
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] and call["id"] not in answered
    ]
