"""Tool calls that a canceled or failed turn of a graph has left open."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


def canceled_responses(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return a tool message "canceled" for each tool call in the messages that has no result."""
    calls = [
        call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls if call["id"]
    ]
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)} if calls else set()
    return [
        ToolMessage("canceled", tool_call_id=call["id"], name=call["name"], status="error")
        for call in calls
        if call["id"] not in answered
    ]
