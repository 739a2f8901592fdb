"""Graphs that a server meets sooner or later: one that returns 50 MB, one that hangs for a while."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

LARGE = "0123456789abcdef" * (50 * 1024 * 1024 // 16)


def answer(state: MessagesState) -> dict[str, Any]:
    """Return 50 MB of text, or what was asked for."""
    return {"messages": [AIMessage(LARGE if state["messages"][-1].text == "large" else "small")]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
