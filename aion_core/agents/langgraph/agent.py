"""A LangGraph graph as an agent: one `astream` call is a turn."""

from collections.abc import AsyncGenerator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.types import StreamMode

from aion_core.agents.langgraph.inbound import graph_input, thread_id
from aion_core.agents.langgraph.outbound import chunk_of, new_messages, reply_of
from aion_core.ports import Asked, Chunk, Emission, Reply

STREAM_MODES: list[StreamMode] = ["values", "messages", "custom", "updates"]
"""R59."""


class LangGraphAgent:
    """`ports.Agent` of a graph; the author's object is left as it is."""

    def __init__(self, graph: StateGraph[Any, Any, Any, Any] | Pregel[Any, Any, Any, Any]) -> None:
        self._graph = graph.compile() if isinstance(graph, StateGraph) else graph

    def load(self) -> None:
        """See `ports.Agent.load`: whoever has a graph has imported it."""

    async def run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        config: RunnableConfig = {
            "configurable": {"thread_id": thread_id(asked.context)},
            "metadata": {"run_id": asked.turn.id},
        }
        given = graph_input(self._graph, asked)
        known = frozenset(message.id for message in given.get("messages", ()))
        values: Any = None
        spoken: list[Chunk] = []  # of the model call that spoke last
        event: Any
        async for event in self._graph.astream(given, config, stream_mode=STREAM_MODES):
            mode, payload = event
            if mode == "messages" and (chunk := chunk_of(payload)):
                if spoken and spoken[-1].message_id != chunk.message_id:
                    spoken.clear()
                spoken.append(chunk)
                yield chunk
            elif mode == "values":
                values = payload
        yield Reply(reply_of(new_messages(values, known), "".join(chunk.text for chunk in spoken)))
