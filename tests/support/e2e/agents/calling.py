"""LangGraph agent that calls the agent at the URL in the message, and answers with the beginning of its answer."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from aion.shared.remote import call_agent


async def call(state: MessagesState) -> dict[str, Any]:
    answer = await call_agent(state["messages"][-1].text, "hi")
    return {"messages": [AIMessage(f"It says: {answer.text[:20]}")]}


caller = StateGraph(MessagesState).add_node("call", call).add_edge(START, "call")
