"""A LangGraph graph as an agent: one `astream` call is a turn, its start, its resumption, and its repeat."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing, suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Interrupt, StateSnapshot, StreamMode

from aion_core.agents.context import context_of
from aion_core.agents.guard import guarded
from aion_core.agents.langgraph import fingerprint
from aion_core.agents.langgraph.handover import Handover
from aion_core.agents.langgraph.inbound import clears_outbox, graph_input, thread_id, with_envelopes
from aion_core.agents.langgraph.interrupts import (
    asked_before,
    breakpoint_before,
    ids_of,
    question,
    resumption,
    unfit_by_schema,
)
from aion_core.agents.langgraph.observed import Observer
from aion_core.agents.langgraph.outbound import HANDED, Outbound
from aion_core.agents.langgraph.reviews import Unfit
from aion_core.agents.langgraph.sink import StreamSink
from aion_core.agents.langgraph.state_types import state_types
from aion_core.agents.langgraph.streamed import Streamed
from aion_core.agents.langgraph.thread import MESSAGES, Graph, Thread, messages_of, values_of
from aion_core.authoring.context import AionContext, aion_context_set
from aion_core.authoring.emit import handed
from aion_core.errors import AgentFailed
from aion_core.ports import Asked, Emission, Paused, Reply, Said, Stepped
from aion_core.protocol.types import Message

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
        self._graph: Graph = with_envelopes(graph.compile() if isinstance(graph, StateGraph) else graph)
        self._savers = savers
        self._types = state_types(self._graph)
        self._fingerprint = fingerprint.of(self._graph)

    def load(self) -> None:
        """See `ports.Agent.load`: whoever has a graph has imported it."""

    async def run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        with guarded():
            async with aclosing(self._run(asked)) as emissions:
                async for emission in emissions:
                    yield emission

    async def _run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        turn = _Turn(asked, self._graph, self._savers, self._types, self._fingerprint)
        if not turn.durable and (asked.turn.tries > 1 or asked.turn.hops):
            raise AgentFailed(
                "The server stopped in the middle of this turn, and the graph keeps no state to go on from."
            )
        state = await turn.thread.state()
        answers = asked_before(asked)
        if not fingerprint.fits(self._graph, state.metadata if state is not None else None):
            goes_on = turn.thread.is_of_turn(state) or answers is not None
            if goes_on and await turn.thread.has_work():
                raise AgentFailed(fingerprint.REDEPLOYED)
        pending = await turn.thread.questions(state, torn=asked.turn.tries > 1)
        try:
            given = turn.given(state, answers, pending)
        except Unfit as unfit:
            yield question(pending, unfit=str(unfit))
            return
        outbound = await turn.outbound(state, answers)
        try:
            async for emission in turn.stream(given, outbound):
                yield emission
        except GraphDrained:
            for emission in outbound.silence():
                yield emission
            await turn.streamed.keep()
            yield Paused()
            return
        except Exception as error:
            if pending and (refused := unfit_by_schema(error)):
                yield question(pending, unfit=refused)
                return
            if "not msgpack serializable" in str(error):
                raise AgentFailed(_unserializable(error)) from error
            raise
        state = await turn.thread.state()
        if state is not None and (state.interrupts or state.next):
            yield question(state.interrupts) if state.interrupts else breakpoint_before(state.next)
            return
        for emission in outbound.rest():
            if isinstance(emission, Reply | Said) and emission.message is not None:
                outbound.sent.append(emission.message)
            if isinstance(emission, Reply):
                await turn.thread.keep(outbound.sent)
            yield emission


class _Turn:
    """One turn of a graph: where it is kept, what the graph is called with, and what it streams."""

    def __init__(self, asked: Asked, graph: Graph, savers: Savers | None, types: Collection[type], nodes: str) -> None:
        self._asked, self._handover = asked, Handover()
        config: RunnableConfig = {
            "configurable": {"thread_id": thread_id(asked.context)},
            # LangGraph takes input under the run_id of the newest checkpoint for a resumption of that run (pinned by
            # tests/unit/langgraph/test_pins.py): the same call starts a turn, resumes it, and does nothing after it.
            "metadata": {"run_id": asked.turn.id, fingerprint.NODES: nodes},
        }
        beside: BaseCheckpointSaver[Any] | None = None
        if isinstance(graph.checkpointer, BaseCheckpointSaver):
            beside = graph.checkpointer
        elif savers is not None:
            graph = graph.copy(update={"checkpointer": savers(asked, self._log_first, types)})
            beside = savers(asked, _at_once, types)
        self._graph = graph
        self.durable = beside is not None
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
        context = context_of(self._asked, StreamSink(self._asked))
        telling = handed.set(handover.hand)
        try:
            with aion_context_set(context):
                stream = graph.astream(
                    given,
                    self._config,
                    # A graph with a context of its own keeps it, and asks get_aion_context() for ours.
                    context=context if graph.context_schema in (None, AionContext) else None,
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


def _unserializable(error: Exception) -> str:
    kind = str(error).rpartition(": ")[2]
    return (
        f"The graph's state, or a question of it, holds a value ({kind}) that cannot be kept from one step to the next. "
        "Hold plain data there, messages, pydantic models, dataclasses or enums, and make the rest where it is used."
    )
