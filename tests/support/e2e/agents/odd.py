"""Graphs with unusual behaviour: one returns 50 MB, one hangs for a while."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

LARGE = "0123456789abcdef" * (50 * 1024 * 1024 // 16)


def answer(state: MessagesState) -> dict[str, Any]:
    """Return 50 MB of text, or the message's text."""
    return {"messages": [AIMessage(LARGE if state["messages"][-1].text == "large" else "small")]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
