"""Graph with one interrupt: it asks for a day, then answers with the number of messages in its state; one that fails."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


async def book(state: MessagesState) -> dict[str, Any]:
    """Ask for a day, and book it."""
    day = interrupt("Which day?")
    said = sum(message.type == "human" for message in state["messages"])
    return {"messages": [AIMessage(f"Booked for {day}. You have asked {said} times.")]}


graph = StateGraph(MessagesState).add_node("book", book).add_edge(START, "book").compile()


async def fail(state: MessagesState) -> dict[str, Any]:
    """Fail the turn."""
    raise ValueError("all rooms are taken")


failing = StateGraph(MessagesState).add_node("fail", fail).add_edge(START, "fail").compile()
