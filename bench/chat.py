"""The graph with a checkpointer of LangGraph, for the servers that `aion` is compared with. `aion` has its own one."""

from collections.abc import AsyncIterator
from typing import Any, Literal

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from bench.graph import graph


class Chat:
    """The graph, compiled with a checkpointer."""

    def __init__(self, saver: BaseCheckpointSaver[Any], durability: Literal["sync", "async"]) -> None:
        self._compiled: Any = graph.compile(checkpointer=saver)
        self._durability = durability

    async def words(self, text: str, context: str) -> AsyncIterator[str]:
        """Run the graph in the context's LangGraph thread, and yield the chunks."""
        given = {"messages": [HumanMessage(text)]}
        config = {"configurable": {"thread_id": context}}
        stream = self._compiled.astream(given, config, stream_mode="messages", durability=self._durability)
        async for chunk, _ in stream:
            yield chunk.text


def in_memory() -> Chat:
    """Return the graph with LangGraph's saver in memory, and LangGraph's default durability."""
    return Chat(InMemorySaver(), "async")
