"""Stored state of a context's LangGraph thread: its newest checkpoints as plain JSON."""

from collections.abc import Awaitable, Callable

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import StateSnapshot

from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.redeployment import NODES
from aion_core.agents.langgraph.setup import GraphSetup
from aion_core.table.keys import ContextKey, thread_id
from aion_tools.dev.console.stored_state.readable_json import readable_json
from aion_tools.dev.console.stored_state.state import StateEntry, StoredState


async def stored_thread(graph: Graph, setup: GraphSetup, context: ContextKey, *, limit: int) -> StoredState | None:
    """Return the newest checkpoints of the context's thread; None without a checkpointer. Raises StoreError."""
    graph = with_saver(graph, setup, log_first=_never)
    if not isinstance(graph.checkpointer, BaseCheckpointSaver):
        return None
    thread = thread_id(context)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    history = [snapshot async for snapshot in graph.aget_state_history(config, limit=limit)]
    values = readable_json(history[0].values) if history else None
    return StoredState("LangGraph thread", thread, values, [_entry(snapshot) for snapshot in history])


def with_saver(graph: Graph, setup: GraphSetup, *, log_first: Callable[[], Awaitable[None]], owner: str = "") -> Graph:
    """Return the graph with the server's checkpointer, unless it has its own or there is none.

    Its items are the `owner`'s, and it calls `log_first` before it writes one.
    """
    if isinstance(graph.checkpointer, BaseCheckpointSaver) or setup.savers is None:
        return graph
    saver = setup.savers(fence=None, owner=owner, log_first=log_first, types=setup.types)
    return graph.copy(update={"checkpointer": saver})


def _entry(snapshot: StateSnapshot) -> StateEntry:
    metadata = {key: value for key, value in (snapshot.metadata or {}).items() if key != NODES}
    label = f"step {metadata.get('step')}, {metadata.get('source')}"
    if snapshot.next:
        label += f", next {', '.join(snapshot.next)}"
    content = {
        "values": snapshot.values,
        "next": snapshot.next,
        "interrupts": [{"id": each.id, "value": each.value} for each in snapshot.interrupts],
        "metadata": metadata,
    }
    checkpoint_id = str(snapshot.config["configurable"]["checkpoint_id"])
    return StateEntry(checkpoint_id, label, snapshot.created_at or "", readable_json(content))


async def _never() -> None:
    raise AssertionError("The console does not write checkpoints.")
