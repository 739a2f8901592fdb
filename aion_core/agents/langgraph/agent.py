"""A LangGraph graph as an agent: one `astream` call is a turn, its start, its resumption, and its repeat."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import ModuleType
from typing import Any

from langgraph.errors import GraphDrained
from langgraph.graph import StateGraph

from aion_core.agents.asked import Unfit, asked_before
from aion_core.agents.guard import guarded_run
from aion_core.agents.langgraph import fingerprint, going_on
from aion_core.agents.langgraph.configured import check_saver, own_context
from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.inbound import with_envelopes
from aion_core.agents.langgraph.interrupts import breakpoint_before, question, unfit_by_schema
from aion_core.agents.langgraph.outbound import Outbound
from aion_core.agents.langgraph.state_types import classes_of, state_types
from aion_core.agents.langgraph.thread import messages_of, with_finished
from aion_core.agents.langgraph.turn import Given, GraphTurn, Savers, Stores
from aion_core.ports import Asked, Emission, Paused, Reply, Said


class LangGraphAgent:
    """`ports.Agent` of a graph; the author's object is left as it is.

    A graph without a checkpointer, or without a store, gets one of ours; one that brings its own keeps it.
    """

    def __init__(
        self,
        graph: StateGraph[Any, Any, Any, Any] | Graph,
        savers: Savers | None = None,
        *,
        stores: Stores | None = None,
        name: str = "",
        configuration: Mapping[str, Any] | None = None,
        module: ModuleType | None = None,
    ) -> None:
        """`name` is the agent's own; `configuration` is what a context schema of the graph's own is made of.

        `module` is where the graph was found: its classes may be kept too. Raises ConfigurationError.
        """
        compiled = graph.compile() if isinstance(graph, StateGraph) else graph
        check_saver(compiled)
        self._graph: Graph = with_envelopes(compiled)
        self._given = Given(
            name=name,
            context=own_context(compiled, configuration or {}),
            savers=savers,
            stores=stores,
            types=state_types(compiled) | (classes_of(module) if module is not None else frozenset()),
            nodes=fingerprint.of(compiled),
        )

    def load(self) -> None:
        """See `ports.Agent.load`: whoever has a graph has imported it."""

    def run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        return guarded_run(self._run(asked))

    async def _run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        turn = GraphTurn(asked, self._graph, self._given)
        going_on.check_kept(asked, turn)
        state, answers = await turn.thread.state(), asked_before(asked)
        await going_on.check_thread(asked, turn, self._graph, state, answers)
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
