"""LangGraph graph that asks a person before it pays. No key, no network."""

import re
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

LIMIT = 100
"""Largest amount that is paid without a question."""


def pay(state: MessagesState) -> dict[str, Any]:
    """Pay the amount in the message; if it is large, ask a person for approval first."""
    found = re.search(r"\d+", state["messages"][-1].text)
    if found is None:
        return {"messages": [AIMessage("Name an amount, for example: pay 250 to Ada.")]}
    amount = int(found[0])
    if amount > LIMIT:
        # The turn ends here. It resumes with the answer, perhaps days later and in another process.
        answer = interrupt({"prompt": f"May I pay {amount}?", "options": ["approve", "reject"]})
        if answer != "approve":
            return {"messages": [AIMessage(f"I have not paid {amount}.")]}
    return {"messages": [AIMessage(f"I have paid {amount}.")]}


graph = StateGraph(MessagesState).add_node("pay", pay).add_edge(START, "pay")
