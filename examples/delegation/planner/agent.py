"""LangGraph graph that plans a day with the help of another agent, by A2A. No key, and no network but to that agent."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from aion.shared.remote import call_agent

PLANS = {"sunny": "Go to the beach", "snowy": "Go skiing", "rainy": "Visit a museum"}


async def plan(state: MessagesState) -> dict[str, Any]:
    """Ask the weather agent, and plan the day by the weather."""
    weather = await call_agent("weather", state["messages"][-1].text)
    plan = next(PLANS[word] for word in PLANS if word in weather.text)
    return {"messages": [AIMessage(f"{weather.text} {plan}.")]}


graph = StateGraph(MessagesState).add_node("plan", plan).add_edge(START, "plan")
