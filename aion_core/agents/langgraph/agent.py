"""A LangGraph graph as an agent: one `astream` call is a turn, its start, its resumption, and its repeat."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.types import StateSnapshot, StreamMode

from aion_core.agents.context import context_of
from aion_core.agents.langgraph.guard import guarded
from aion_core.agents.langgraph.handover import Handover
from aion_core.agents.langgraph.inbound import clears_outbox, graph_input, thread_id
from aion_core.agents.langgraph.interrupts import breakpoint_before, question, resumption
from aion_core.agents.langgraph.observed import Observer
from aion_core.agents.langgraph.outbound import HANDED, Outbound
from aion_core.agents.langgraph.sink import StreamSink
from aion_core.agents.langgraph.state_types import state_types
from aion_core.agents.langgraph.thread import Graph, Thread, messages_of, values_of
from aion_core.authoring.context import AionContext, aion_context_set
from aion_core.authoring.emit import handed
from aion_core.errors import AgentFailed
from aion_core.ports import Asked, Emission, Reply, Said

STREAM_MODES: list[StreamMode] = ["values", "messages", "custom", "updates"]
"""R59."""
WITH_CHECKPOINTS: list[StreamMode] = [*STREAM_MODES, "checkpoints"]
"""Where there are any: the operator's log says so (R38)."""

Savers = Callable[[Asked, Callable[[], Awaitable[None]], Collection[type]], BaseCheckpointSaver[Any]]
"""Makes the saver of one turn: it writes by the turn's lease, and no sooner than the function has returned.

The types are the author's own, which checkpoints may hold.
"""


class LangGraphAgent:
    """`ports.Agent` of a graph; the author's object is left as it is.

    A graph without a checkpointer gets one of ours; one that brings its own keeps it.
    """

    def __init__(self, graph: StateGraph[Any, Any, Any, Any] | Graph, savers: Savers | None = None) -> None:
        self._graph: Graph = guarded(graph.compile() if isinstance(graph, StateGraph) else graph)
        self._savers = savers
        self._types = state_types(self._graph)

    def load(self) -> None:
        """See `ports.Agent.load`: whoever has a graph has imported it."""

    async def run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        handover = Handover()
        observer = Observer(asked.task.id)
        graph = self._with_saver(asked, handover)
        durable = isinstance(graph.checkpointer, BaseCheckpointSaver)
        config: RunnableConfig = {
            "configurable": {"thread_id": thread_id(asked.context)},
            # LangGraph takes input under the run_id of the newest checkpoint for a resumption of that run (pinned by
            # tests/unit/langgraph/test_pins.py): the same call starts a turn, resumes it, and does nothing after it.
            "metadata": {"run_id": asked.turn.id},
            "callbacks": [observer],
        }
        if asked.turn.tries > 1 and not durable:
            raise AgentFailed(
                "The server stopped in the middle of this turn, and the graph keeps no state to go on from."
            )
        thread = Thread(graph, config, durable=durable)
        state = await thread.state()
        given = _given(graph, asked, state)
        outbound = Outbound(asked, await thread.before(state), clears_outbox=clears_outbox(graph))
        async for emission in self._stream(graph, given, config, asked, outbound, handover, observer):
            yield emission
        state = await thread.state()
        if state is not None and (state.interrupts or state.next):
            yield question(state.interrupts) if state.interrupts else breakpoint_before(state.next)
            return
        for emission in outbound.rest():
            if isinstance(emission, Reply | Said) and emission.message is not None:
                outbound.sent.append(emission.message)
            if isinstance(emission, Reply):
                await thread.keep(outbound.sent)
            yield emission

    async def _stream(
        self,
        graph: Graph,
        given: Any,
        config: RunnableConfig,
        asked: Asked,
        outbound: Outbound,
        handover: Handover,
        observer: Observer,
    ) -> AsyncGenerator[Emission, None]:
        context = context_of(asked, StreamSink(asked))
        telling = handed.set(handover.hand)
        try:
            with aion_context_set(context):
                durable = isinstance(graph.checkpointer, BaseCheckpointSaver)
                stream = graph.astream(
                    given,
                    config,
                    # A graph with a context of its own keeps it, and asks get_aion_context() for ours.
                    context=context if graph.context_schema in (None, AionContext) else None,
                    stream_mode=WITH_CHECKPOINTS if durable else STREAM_MODES,
                    subgraphs=True,
                    durability="sync" if durable else None,
                )
                event: Any
                async for event in stream:
                    for emission in outbound.hear(*event):
                        yield emission
                    if event[1] == "checkpoints":
                        observer.stepped()
                    # Whoever asks for what comes next has recorded what came.
                    if isinstance(event[2], HANDED):
                        handover.record()
        except BaseException:
            handover.cut()
            raise
        finally:
            handover.end()
            with suppress(ValueError):
                handed.reset(telling)

    def _with_saver(self, asked: Asked, handover: Handover) -> Graph:
        if self._savers is None or isinstance(self._graph.checkpointer, BaseCheckpointSaver):
            return self._graph
        return self._graph.copy(update={"checkpointer": self._savers(asked, handover.caught_up, self._types)})


def _given(graph: Graph, asked: Asked, state: StateSnapshot | None) -> Any:
    """Return what the graph is called with: the message, or the answer to what it has asked."""
    if asked.turn.asked > 1 and state is not None:
        if state.interrupts:
            return resumption(asked, state.interrupts)
        if state.next:
            # It had paused before a node, or the answer was taken and then the process died: it goes on.
            return None
    return graph_input(graph, asked, messages_of(values_of(state)))
