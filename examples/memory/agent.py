"""LangGraph graph that remembers facts about each caller in all of the caller's conversations. No key, no network."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

FACTS = ("facts",)


async def remember(state: MessagesState, runtime: Runtime) -> dict[str, Any]:
    """Store the text after "remember", or list the stored facts."""
    # The store has only the authenticated caller's data, because the server gives each caller a separate store.
    store, text = runtime.store, state["messages"][-1].text
    assert store is not None  # noqa: S101  # the server provides it
    command, _, fact = text.partition(" ")
    if command.lower() == "remember" and fact:
        await store.aput(FACTS, fact, {"fact": fact})
        return {"messages": [AIMessage("I have stored it.")]}
    found = sorted(item.value["fact"] for item in await store.asearch(FACTS))
    return {"messages": [AIMessage("; ".join(found) if found else "I know nothing yet.")]}


graph = StateGraph(MessagesState).add_node("remember", remember).add_edge(START, "remember")
