"""A LangGraph graph as an agent: one `astream` call is a turn, its start, its resumption, and its repeat."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import ModuleType
from typing import Any

from langgraph.errors import GraphDrained
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from aion_core.agents.asked import Unfit, asked_before
from aion_core.agents.factory import PerTurn
from aion_core.agents.guard import guarded_run
from aion_core.agents.langgraph import fingerprint, going_on
from aion_core.agents.langgraph.configured import check_saver, own_context
from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.inbound import with_envelopes
from aion_core.agents.langgraph.interrupts import breakpoint_before, question, unfit_by_schema
from aion_core.agents.langgraph.outbound import Outbound
from aion_core.agents.langgraph.state_types import classes_of, state_types
from aion_core.agents.langgraph.thread import messages_of, with_finished
from aion_core.agents.langgraph.turn import Given, GraphTurn, Savers, Stores, config_of
from aion_core.errors import ConfigurationError
from aion_core.ports import Asked, Emission, Paused, Reply, Said


class LangGraphAgent:
    """`ports.Agent` of a graph; the author's object is left as it is.

    A graph without a checkpointer, or without a store, gets one of ours; one that brings its own keeps it.
    """

    def __init__(
        self,
        graph: StateGraph[Any, Any, Any, Any] | Graph | PerTurn,
        savers: Savers | None = None,
        *,
        stores: Stores | None = None,
        name: str = "",
        configuration: Mapping[str, Any] | None = None,
        module: ModuleType | None = None,
    ) -> None:
        """`name` is the agent's own; `configuration` is what each turn's config holds, and a context schema is made of.

        `module` is where the graph was found: its classes may be kept too. A factory's graph is checked when it is made,
        any other one now. Raises ConfigurationError.
        """
        self._name, self._savers, self._stores, self._module = name, savers, stores, module
        self._configuration = configuration or {}
        self._factory = graph if isinstance(graph, PerTurn) else None
        self._served = self._prepared(graph) if not isinstance(graph, PerTurn) else None

    def load(self) -> None:
        """See `ports.Agent.load`: whoever has a graph has imported it."""

    def run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        return guarded_run(self._run(asked))

    async def _run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        failure: BaseException | None = None
        async with self._graph_of(asked) as (graph, given):
            try:
                async with aclosing(_turn(asked, graph, given)) as emissions:
                    async for emission in emissions:
                        yield emission
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            # A context manager of the author's has suppressed it; the turn has failed all the same.
            raise failure

    @asynccontextmanager
    async def _graph_of(self, asked: Asked) -> AsyncIterator[tuple[Graph, Given]]:
        """Give the graph of a turn; what a factory has opened for it is open as long."""
        if self._factory is None:
            assert self._served is not None  # noqa: S101  # there is one or the other
            yield self._served
            return
        async with self._factory.made(config_of(asked, self._configuration)) as made:
            yield self._prepared(made)

    def _prepared(self, made: Any) -> tuple[Graph, Given]:
        """Return a graph as it is run, and what its turns are given; raises ConfigurationError."""
        graph = made if isinstance(made, StateGraph | Pregel) else getattr(made, "bound", made)
        if not isinstance(graph, StateGraph | Pregel):
            raise ConfigurationError(
                f"The graph factory returned a {type(made).__name__}; a StateGraph or a compiled graph is needed."
            )
        compiled = graph.compile() if isinstance(graph, StateGraph) else graph
        check_saver(compiled)
        given = Given(
            name=self._name,
            configuration=self._configuration,
            context=own_context(compiled, self._configuration),
            savers=self._savers,
            stores=self._stores,
            types=state_types(compiled) | (classes_of(self._module) if self._module is not None else frozenset()),
            nodes=fingerprint.of(compiled),
        )
        return with_envelopes(compiled), given


async def _turn(asked: Asked, graph: Graph, own: Given) -> AsyncGenerator[Emission, None]:
    turn = GraphTurn(asked, graph, own)
    going_on.check_kept(asked, turn)
    state, answers = await turn.thread.state(), asked_before(asked)
    await going_on.check_thread(asked, turn, graph, state, answers)
    pending = await turn.thread.questions(state, torn=asked.turn.tries > 1)
    try:
        given = turn.given(state, answers, pending)
    except Unfit as unfit:
        yield question(pending, unfit=str(unfit))
        return
    outbound = await turn.outbound(state, answers)
    try:
        async with aclosing(turn.stream(given, outbound)) as emissions:
            async for emission in emissions:
                yield emission
    except GraphDrained:
        for emission in outbound.silence():
            yield emission
        await turn.streamed.keep()
        yield Paused()
    except Exception as error:
        if not pending or not (refused := unfit_by_schema(error)):
            raise
        yield question(pending, unfit=refused)
    else:
        async for emission in _ended(turn, outbound):
            yield emission


async def _ended(turn: GraphTurn, outbound: Outbound) -> AsyncGenerator[Emission, None]:
    """Yield how the turn ended that the graph has nothing more to stream of: with a question, or with its answer."""
    state = await turn.thread.state()
    if state is not None and (state.interrupts or state.next):
        asked = [interrupt.id for interrupt in state.interrupts]
        for emission in outbound.before_question(messages_of(with_finished(state, asked))):
            yield emission
        yield question(state.interrupts) if asked else breakpoint_before(state.next)
    else:
        for emission in outbound.rest():
            if isinstance(emission, Reply | Said) and emission.message is not None:
                outbound.sent.append(emission.message)
            if isinstance(emission, Reply):
                await turn.thread.keep(outbound.sent)
            yield emission
