"""Adapter for a LangGraph graph. The same call of `astream` starts, resumes or, at its end, only repeats a turn."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from types import ModuleType
from typing import Any

from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from aion_core.agents.addressing import addressed
from aion_core.agents.client_answers import InvalidResumeInput, answered_question
from aion_core.agents.langgraph.context_schema import own_context
from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.input_contract import input_advice
from aion_core.agents.langgraph.interrupts import answer_refusal, breakpoint_before, input_required
from aion_core.agents.langgraph.loopback import HOW_TO_DO_WITHOUT, NO_LANGGRAPH_SERVER, called_own_server
from aion_core.agents.langgraph.redeployment import REFUSES_EARLIER_ANSWER, node_names
from aion_core.agents.langgraph.resumption import TOO_MANY_STEPS, check_durable, check_thread
from aion_core.agents.langgraph.setup import (
    GraphSetup,
    MemoryFactory,
    SaverFactory,
    check_saver,
    needs_no_input_checkpoint,
    with_envelopes,
)
from aion_core.agents.langgraph.state import finished_values, messages_of
from aion_core.agents.langgraph.stored_classes import stored_classes
from aion_core.agents.langgraph.thread import config_of
from aion_core.agents.langgraph.translation import LangGraphTranslator
from aion_core.agents.langgraph.turn import GraphTurn
from aion_core.agents.langgraph.waits import questions_in, suspended_by
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import Agent, Emission, Paused, Reply, TurnRequest
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.errors import AgentFailed, ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.loading.objects.per_turn import PerTurnFactory
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.state.long_term_memory import LongTermMemory
from aion_core.table.keys import ContextKey

logger = logging.getLogger(__name__)


class LangGraphAgent:
    """Adapter of a LangGraph graph to the `Agent` protocol. It does not change the author's graph object.

    A graph without a checkpointer or a store gets aion's. A graph with its own checkpointer or store keeps it.
    """

    def __init__(
        self,
        graph: StateGraph[Any, Any, Any, Any] | Graph | PerTurnFactory,
        savers: SaverFactory | None = None,
        *,
        memories: MemoryFactory | None = None,
        remotes: Remotes | None = None,
        name: str = "",
        configuration: Mapping[str, Any] | None = None,
        recursion_limit: int | None = None,
        module: ModuleType | None = None,
    ) -> None:
        """Prepare the graph, unless a factory makes a graph for each turn.

        `name` is the agent's name. `configuration` is part of each turn's config, and is the context of a graph with a
        context schema. Its nodes may call the agents in `remotes` by name. `recursion_limit` is the maximum number of steps of a turn. Checkpoints may contain instances of
        classes in the graph's `module`. Raises ConfigurationError for an unsupported graph; a factory's graph is
        checked in each turn.
        """
        self._name, self._savers, self._memories, self._module = name, savers, memories, module
        self._remotes = remotes or Remotes()
        self._configuration, self._recursion_limit = configuration or {}, recursion_limit
        self._factory = graph if isinstance(graph, PerTurnFactory) else None
        self._prepared = self._prepare(graph) if not isinstance(graph, PerTurnFactory) else None

    def load(self) -> None:
        """Do nothing, because the graph's code is already imported. See `Agent.load`."""

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of the graph. See `Agent.run`."""
        return addressed(request, self._run(request) if self._prepared is None else _turn(request, *self._prepared))

    def profile(self) -> AgentProfile:
        """Return what the graph says about the agent; nothing if a factory makes it. See `Agent.profile`."""
        # Import late, because most processes serve no cards.
        from aion_core.agents.langgraph.profile import graph_profile

        return graph_profile(self._prepared[0]) if self._prepared is not None else UNKNOWN

    def input_advice(self, modes: Collection[str] | None) -> str:
        """Return a warning if the graph cannot read content of these types, else "". A factory gets no warning."""
        return input_advice(self._prepared[0], modes) if self._prepared is not None else ""

    @asynccontextmanager
    async def graph_of(self, context: ContextKey, turn_id: str) -> AsyncIterator[tuple[Graph, GraphSetup]]:
        """Context manager that yields the graph of a turn in this context, and its settings.

        It keeps the resources of the graph's factory open. `turn_id` is "" for reads outside of a turn.
        """
        if self._factory is None:
            assert self._prepared is not None  # noqa: S101  # without a factory, the graph was prepared in __init__
            yield self._prepared
            return
        made_for = config_of(context, turn_id, self._configuration, self._recursion_limit)
        async with self._factory.made(made_for) as made:
            yield self._prepare(made)

    async def _run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of a graph that a factory makes."""
        failure: BaseException | None = None
        async with self.graph_of(request.context, request.turn.id) as (graph, setup):
            try:
                async with aclosing(_turn(request, graph, setup)) as emissions:
                    async for emission in emissions:
                        yield emission
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            # Raise the exception again, so that the turn fails although the author's context manager has suppressed it.
            raise failure

    def _prepare(self, made: Any) -> tuple[Graph, GraphSetup]:
        """Return the compiled graph and its turns' settings. Raises ConfigurationError for an unsupported graph."""
        graph = made if isinstance(made, StateGraph | Pregel) else getattr(made, "bound", made)
        if not isinstance(graph, StateGraph | Pregel):
            raise ConfigurationError(
                f"The graph factory returned a {type(made).__name__}; a StateGraph or a compiled graph is needed."
            )
        compiled = graph.compile() if isinstance(graph, StateGraph) else graph
        check_saver(compiled)
        setup = GraphSetup(
            name=self._name,
            configuration=self._configuration,
            recursion_limit=self._recursion_limit,
            context=own_context(compiled, self._configuration),
            savers=self._savers,
            memories=self._memories,
            remotes=self._remotes,
            types=stored_classes(compiled, self._module),
            nodes=node_names(compiled),
            skips_input=needs_no_input_checkpoint(compiled),
        )
        return with_envelopes(compiled), setup


async def _turn(request: TurnRequest, graph: Graph, setup: GraphSetup) -> AsyncGenerator[Emission, None]:
    turn = GraphTurn(request, graph, setup)
    check_durable(request, turn)
    state, question = await turn.thread.state(), answered_question(request)
    await check_thread(request, turn, graph, state, question)
    pending = questions_in(await turn.thread.pending_interrupts(state, may_be_torn=request.turn.tries > 1))
    try:
        graph_input = turn.graph_input(state, question, pending)
    except InvalidResumeInput as error:
        await turn.thread.renew()
        yield input_required(pending, rejection=str(error))
        return
    translator = await turn.translator(state, question)
    try:
        async with aclosing(turn.stream(graph_input, translator)) as emissions:
            async for emission in emissions:
                yield emission
    except GraphDrained:
        for emission in translator.close_streams():
            yield emission
        await turn.streamed.store()
        yield Paused()
        return
    except (GeneratorExit, asyncio.CancelledError):
        raise
    except BaseException as error:  # a node may raise any exception, as the panic of a library in Rust
        refusal = answer_refusal(error) if pending else None
        if refusal is None or not refusal.concerns(pending):
            for emission in translator.before_failure():
                yield emission
            if isinstance(error, GraphRecursionError):
                raise AgentFailed(TOO_MANY_STEPS) from error
            if refusal is not None:
                raise AgentFailed(REFUSES_EARLIER_ANSWER) from error
            if called_own_server(error):
                raise AgentFailed(NO_LANGGRAPH_SERVER, HOW_TO_DO_WITHOUT) from error
            raise
        turn.rejection, turn.schemas = refusal.reason, refusal.schemas
    async for emission in _final_emissions(turn, translator):
        yield emission


async def _final_emissions(turn: GraphTurn, translator: LangGraphTranslator) -> AsyncGenerator[Emission, None]:
    """Yield the final emissions of a turn, ending with the question of an interrupt, a wait or the answer."""
    state = None if turn.has_ended else await turn.thread.state()
    if state is not None and (state.interrupts or state.next):
        # After a refused answer, the parent node of a subgraph still has the interrupts of the accepted answers.
        found = (
            await turn.thread.pending_interrupts(state, may_be_torn=True) if turn.rejection else list(state.interrupts)
        )
        pending = questions_in(found)
        if found and not pending:
            for emission in translator.close_streams():
                yield emission
            await turn.streamed.store()
            yield suspended_by(found)
            return
        if not turn.thread.is_of_turn(state):
            await turn.thread.renew()
        ids = [interrupt.id for interrupt in pending]
        for emission in translator.before_question(messages_of(finished_values(state, ids))):
            yield emission
        if pending:
            yield input_required(pending, rejection=turn.rejection, schemas=turn.schemas)
        else:
            yield breakpoint_before(state)
    else:
        for emission in translator.finish():
            translator.add_sent(emission)
            if isinstance(emission, Reply):
                await turn.thread.store_sent(translator.sent_beside_state())
            yield emission


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Return the `Agent` of a loaded graph, with aion's checkpointer and long-term memory."""
    table, clock = dependencies.table, dependencies.clock
    agent = LangGraphAgent(
        loaded.agent,
        partial(TableSaver, table, dependencies.blobs, clock, retention=dependencies.retention),
        memories=partial(LongTermMemory, table, clock),
        remotes=dependencies.remotes,
        name=config.name,
        configuration=config.configuration,
        recursion_limit=config.recursion_limit,
        module=loaded.module,
    )
    if advice := agent.input_advice(config.input_modes if "input_modes" in config.model_fields_set else None):
        logger.warning("%s: %s", config.path, advice)
    return agent
