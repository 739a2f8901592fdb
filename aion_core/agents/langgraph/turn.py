"""One turn of a graph: where it is kept, what the graph is called with, and what it streams."""

import copy
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.store.base import BaseStore
from langgraph.types import Interrupt, StateSnapshot, StreamMode

from aion_core.agents.asked import ids_of
from aion_core.agents.context import context_of
from aion_core.agents.langgraph import fingerprint
from aion_core.agents.langgraph.graph import MESSAGES, Graph
from aion_core.agents.langgraph.handover import Handover
from aion_core.agents.langgraph.inbound import clears_outbox, graph_input
from aion_core.agents.langgraph.interrupts import resumption
from aion_core.agents.langgraph.observed import Observer
from aion_core.agents.langgraph.outbound import HANDED, Outbound
from aion_core.agents.langgraph.sink import StreamSink
from aion_core.agents.langgraph.streamed import Streamed
from aion_core.agents.langgraph.thread import Thread, messages_of, values_of
from aion_core.authoring.context import aion_context_set
from aion_core.authoring.emit import handed
from aion_core.checkpointing.thread_ids import thread_id
from aion_core.ports import Asked, Emission, Stepped
from aion_core.protocol.types import Message

STREAM_MODES: list[StreamMode] = ["values", "messages", "custom", "updates"]
"""R59."""
WITH_CHECKPOINTS: list[StreamMode] = [*STREAM_MODES, "checkpoints"]
"""Where there are any: the operator's log says so (R38)."""

# A tool with `runtime: ToolRuntime` has LangChain dump its arguments, and pydantic then warns, with all that the turn was
# asked, that the context is not None.
warnings.filterwarnings("ignore", r"(?s)Pydantic serializer warnings:.*input_type=AionContext", UserWarning)

Savers = Callable[[Asked, Callable[[], Awaitable[None]], Collection[type]], BaseCheckpointSaver[Any]]
"""Makes the saver of one turn: it writes by the turn's lease, and no sooner than the function has returned.

The types are the author's own, which checkpoints may hold.
"""

Stores = Callable[[Asked], BaseStore]
"""Makes the store of one turn: it holds what is the turn's owner's, and writes by the turn's lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What all turns of an agent are given."""

    name: str
    """The agent's own."""
    configuration: Mapping[str, Any]
    """The author's own settings."""
    context: Mapping[str, Any] | None
    """The graph's context, where its schema is its own; None where it is the turn's AionContext."""
    savers: Savers | None
    stores: Stores | None
    types: Collection[type]
    """The author's classes that checkpoints may hold."""
    nodes: str
    """The graph's fingerprint."""


def config_of(asked: Asked, configuration: Mapping[str, Any]) -> RunnableConfig:
    """Return the config of a turn: the author's own settings are configurable, and the server's keys win over them."""
    own = {key: value for key, value in configuration.items() if key not in _OURS and not key.startswith("__")}
    return {
        "configurable": {**copy.deepcopy(own), "thread_id": thread_id(asked.context)},
        # LangGraph takes input under the run_id of the newest checkpoint for a resumption of that run (pinned by
        # tests/unit/langgraph/test_pins.py): the same call starts a turn, resumes it, and does nothing after it.
        "metadata": {"run_id": asked.turn.id},
    }


_OURS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"})
"""The configurable keys by which LangGraph finds a turn's state; those that begin with two underscores are its own too."""


class GraphTurn:
    """A turn whose message is asked."""

    def __init__(self, asked: Asked, graph: Graph, given: Given) -> None:
        self._asked, self._given, self._handover = asked, given, Handover()
        config = config_of(asked, given.configuration)
        config["metadata"][fingerprint.NODES] = given.nodes
        self.own_saver = graph.checkpointer if isinstance(graph.checkpointer, BaseCheckpointSaver) else None
        """What the graph keeps its state in, where its author has chosen that."""
        beside = self.own_saver
        if beside is None and given.savers is not None:
            graph = graph.copy(update={"checkpointer": given.savers(asked, self._log_first, given.types)})
            beside = given.savers(asked, _at_once, given.types)
        if graph.store is None and given.stores is not None:
            graph = graph.copy(update={"store": given.stores(asked)})
        self._graph = graph
        self.durable = beside is not None
        """Whether anything of the turn is kept at all."""
        self.thread = Thread(graph, config, durable=self.durable)
        self.streamed = Streamed(beside, config, returns=MESSAGES in graph.channels)
        self._observer = Observer(asked.task.id, self.streamed)
        self._config: RunnableConfig = {**config, "callbacks": [self._observer]}

    def given(self, state: StateSnapshot | None, answers: Message | None, pending: list[Interrupt]) -> Any:
        """Return what the graph is called with: the message, or the answer to what it has asked.

        Raises Unfit where the message is no answer to that.
        """
        if answers is not None and state is not None:
            if (resumed := resumption(self._asked, answers, pending)) is not None:
                return resumed
            if state.tasks or self.thread.is_of_turn(state):
                # It had paused before a node, or the answer was taken and then the process died: it goes on.
                return None
        return graph_input(self._graph, self._asked, messages_of(values_of(state)))

    async def outbound(self, state: StateSnapshot | None, answers: Message | None) -> Outbound:
        """Return what hears the turn, with all that was heard of it before."""
        # An answer's first step may have been cut before it was closed: the state is still the asking turn's then.
        may_have_begun = self.thread.is_of_turn(state) or answers is not None
        return Outbound(
            self._asked,
            await self.thread.past(state, ids_of(answers)),
            self.streamed,
            earlier=await self.streamed.earlier() if may_have_begun else "",
            clears_outbox=clears_outbox(self._graph),
            functional=not isinstance(self._graph, CompiledStateGraph),
        )

    async def stream(self, given: Any, outbound: Outbound) -> AsyncGenerator[Emission, None]:
        """Run the graph as far as it goes; raises GraphDrained where it was asked to stop before its end."""
        graph, handover = self._graph, self._handover
        context = context_of(self._asked, StreamSink(self._asked), name=self._given.name)
        telling = handed.set(handover.hand)
        try:
            with aion_context_set(context):
                stream = graph.astream(
                    given,
                    self._config,
                    # A graph with a context of its own asks get_aion_context() for ours.
                    context=context if self._given.context is None else copy.deepcopy(self._given.context),
                    stream_mode=WITH_CHECKPOINTS if self.durable else STREAM_MODES,
                    subgraphs=True,
                    durability="sync" if self.durable else None,
                    # Whoever goes on has to find where it was.
                    control=_Drain(self._asked) if self.durable else None,
                )
                event: Any
                handover.read()
                async for event in stream:
                    handover.heard()
                    for emission in outbound.hear(*event):
                        yield emission
                    if event[1] == "checkpoints":
                        self._observer.stepped()
                        if event[2]["metadata"]["source"] == "loop":
                            yield Stepped()
                    # Whoever asks for what comes next has recorded what came.
                    if isinstance(event[2], HANDED):
                        handover.record(event[2])
                    handover.read()
        except BaseException:
            handover.cut()
            raise
        finally:
            handover.end()
            with suppress(ValueError):
                handed.reset(telling)

    async def _log_first(self) -> None:
        await self._handover.caught_up()
        await self.streamed.keep()


class _Drain(RunControl):
    """Stops the graph at the next step boundary once the runner's time is up, even if a node blocks the loop till then."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._drain = asked.drain

    @property
    def drain_requested(self) -> bool:
        """See `RunControl.drain_requested`."""
        return self._drain.is_set() or super().drain_requested

    @property
    def drain_reason(self) -> str | None:
        """See `RunControl.drain_reason`."""
        return "deadline" if self._drain.is_set() else super().drain_reason


async def _at_once() -> None:
    """Wait for nothing: what is kept beside the thread is what was said, not what came of it."""
