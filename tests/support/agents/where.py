"""Agent that answers with the id of the event loop on which it runs."""

import asyncio

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


async def say(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [AIMessage(f"on {id(asyncio.get_running_loop())}")]}


graph = StateGraph(MessagesState).add_node(say).add_edge(START, "say")
