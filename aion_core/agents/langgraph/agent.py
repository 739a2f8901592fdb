"""Adapter for a LangGraph graph. The same call of `astream` starts, resumes or, at its end, only repeats a turn."""

import asyncio
import dataclasses
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from types import ModuleType
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot
from pydantic import BaseModel, ValidationError

from aion_core.agents.inbound import QUESTION_EXPIRED, InvalidResumeInput, answered_question
from aion_core.agents.langgraph.checkpoints import stored_thread
from aion_core.agents.langgraph.content import Graph, input_advice, input_modes
from aion_core.agents.langgraph.interrupts import answer_refusal, breakpoint_before, input_required, paused_nodes
from aion_core.agents.langgraph.outbound import LangGraphOutbound
from aion_core.agents.langgraph.setup import GraphSetup, MemoryFactory, SaverFactory, with_envelopes
from aion_core.agents.langgraph.stored_classes import stored_classes
from aion_core.agents.langgraph.thread import (
    REDEPLOYED,
    REFUSES_EARLIER_ANSWER,
    config_of,
    finished_values,
    messages_of,
    missing_nodes,
    needs_no_input_checkpoint,
    node_names,
)
from aion_core.agents.langgraph.turn import GraphTurn
from aion_core.authoring.context import AionContext
from aion_core.engine.agent import Agent, Emission, Paused, Reply, StoredState, TurnRequest
from aion_core.errors import AgentFailed, AgentLoadError, ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.objects import LoadedObject, PerTurnFactory
from aion_core.protocol.types import Message
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
        name: str = "",
        configuration: Mapping[str, Any] | None = None,
        recursion_limit: int | None = None,
        module: ModuleType | None = None,
    ) -> None:
        """Prepare the graph, unless a factory makes a graph for each turn.

        `name` is the agent's name. `configuration` is part of each turn's config, and is the context of a graph with a
        context schema. `recursion_limit` is the maximum number of steps of a turn. Checkpoints may contain instances of
        classes in the graph's `module`. Raises ConfigurationError for an unsupported graph; a factory's graph is
        checked in each turn.
        """
        self._name, self._savers, self._memories, self._module = name, savers, memories, module
        self._configuration, self._recursion_limit = configuration or {}, recursion_limit
        self._factory = graph if isinstance(graph, PerTurnFactory) else None
        self._prepared = self._prepare(graph) if not isinstance(graph, PerTurnFactory) else None

    def load(self) -> None:
        """Do nothing, because the graph's code is already imported. See `Agent.load`."""

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of the graph. See `Agent.run`."""
        if self._prepared is None:
            return self._run(request)
        return _turn(request, *self._prepared)

    def input_modes(self) -> tuple[str, ...]:
        """Return the media types that the graph reads; empty if it reads all, or if a factory makes it."""
        return input_modes(self._prepared[0]) if self._prepared is not None else ()

    def input_advice(self, modes: Collection[str] | None) -> str:
        """Return a warning if the graph cannot read content of these types, else "". A factory gets no warning."""
        return input_advice(self._prepared[0], modes) if self._prepared is not None else ""

    async def stored_state(self, context: ContextKey, *, limit: int) -> StoredState | None:
        """Return the newest checkpoints of the context's thread. See `InspectableAgent`."""
        async with self._graph_of(context, "") as (graph, setup):
            return await stored_thread(graph, setup, context, limit=limit)

    async def _run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of a graph that a factory makes."""
        failure: BaseException | None = None
        async with self._graph_of(request.context, request.turn.id) as (graph, setup):
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

    @asynccontextmanager
    async def _graph_of(self, context: ContextKey, turn_id: str) -> AsyncIterator[tuple[Graph, GraphSetup]]:
        """Context manager that yields a turn's graph. It keeps the resources of the graph's factory open."""
        if self._factory is None:
            assert self._prepared is not None  # noqa: S101  # without a factory, the graph was prepared in __init__
            yield self._prepared
            return
        made_for = config_of(context, turn_id, self._configuration, self._recursion_limit)
        async with self._factory.made(made_for) as made:
            yield self._prepare(made)

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
    pending = await turn.thread.pending_interrupts(state, may_be_torn=request.turn.tries > 1)
    try:
        graph_input = turn.graph_input(state, question, pending)
    except InvalidResumeInput as error:
        await turn.thread.renew()
        yield input_required(pending, rejection=str(error))
        return
    outbound = await turn.outbound(state, question)
    try:
        async with aclosing(turn.stream(graph_input, outbound)) as emissions:
            async for emission in emissions:
                yield emission
    except GraphDrained:
        for emission in outbound.close_streams():
            yield emission
        await turn.streamed.store()
        yield Paused()
        return
    except (GeneratorExit, asyncio.CancelledError):
        raise
    except BaseException as error:  # a node may raise any exception, as the panic of a library in Rust
        refusal = answer_refusal(error) if pending else None
        if refusal is None or not refusal.concerns(pending):
            for emission in outbound.before_failure():
                yield emission
            if isinstance(error, GraphRecursionError):
                raise AgentFailed(TOO_MANY_STEPS) from error
            if refusal is not None:
                raise AgentFailed(REFUSES_EARLIER_ANSWER) from error
            raise
        turn.rejection, turn.schemas = refusal.reason, refusal.schemas
    async for emission in _final_emissions(turn, outbound):
        yield emission


async def _final_emissions(turn: GraphTurn, outbound: LangGraphOutbound) -> AsyncGenerator[Emission, None]:
    """Yield the final emissions of a turn, ending with the question of an interrupt or with the answer."""
    state = None if turn.has_ended else await turn.thread.state()
    if state is not None and (state.interrupts or state.next):
        # After a refused answer, the parent node of a subgraph still has the interrupts of the accepted answers.
        pending = (
            await turn.thread.pending_interrupts(state, may_be_torn=True) if turn.rejection else list(state.interrupts)
        )
        if not turn.thread.is_of_turn(state):
            await turn.thread.renew()
        ids = [interrupt.id for interrupt in pending]
        for emission in outbound.answer_before_interrupt(messages_of(finished_values(state, ids))):
            yield emission
        if pending:
            yield input_required(pending, rejection=turn.rejection, schemas=turn.schemas)
        else:
            yield breakpoint_before(paused_nodes(state))
    else:
        for emission in outbound.finish():
            outbound.add_sent(emission)
            if isinstance(emission, Reply):
                await turn.thread.store_sent(outbound.sent_beside_state())
            yield emission


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Return the `Agent` of a loaded graph, with aion's checkpointer and long-term memory."""
    table, clock = dependencies.table, dependencies.clock
    agent = LangGraphAgent(
        loaded.agent,
        partial(TableSaver, table, dependencies.blobs, clock, retention=dependencies.retention),
        memories=partial(LongTermMemory, table, clock),
        name=config.name,
        configuration=config.configuration,
        recursion_limit=config.recursion_limit,
        module=loaded.module,
    )
    if advice := agent.input_advice(config.input_modes if "input_modes" in config.model_fields_set else None):
        logger.warning("%s: %s", config.path, advice)
    return agent


# ── Resumption ────────────────────────────────────────────────────────────────────────────────────────────────────────

TOO_MANY_STEPS = (
    "The agent reached the maximum number of steps and did not end. Its author sets this number: `recursion_limit` of "
    "the agent in aion.yaml, or in the config with which it calls another graph."
)
STATE_NOT_STORED = "The server stopped in the middle of this turn, and the graph stores no state to resume from."
STATE_LOST = (
    "The graph's own checkpointer has lost this turn: it stores its checkpoints in one process only. "
    "Compile the graph without it, or with a persistent one."
)


def check_durable(request: TurnRequest, turn: GraphTurn) -> None:
    """Raise AgentFailed if the turn must resume, but no checkpointer stores the graph's state."""
    if not turn.durable and (request.turn.tries > 1 or request.turn.handoffs):
        raise AgentFailed(STATE_NOT_STORED)


async def check_thread(
    request: TurnRequest, turn: GraphTurn, graph: Graph, state: StateSnapshot | None, question: Message | None
) -> None:
    """Raise AgentFailed if the stored state is missing, or if it names nodes that the graph no longer has."""
    if _is_empty(state) and turn.durable and question is not None:
        raise AgentFailed(STATE_LOST if isinstance(turn.own_saver, InMemorySaver) else QUESTION_EXPIRED)
    if _is_empty(state) and turn.own_saver is not None and _has_started(request, turn):
        raise AgentFailed(STATE_LOST)
    if missing := missing_nodes(turn.nodes, state.metadata if state is not None else None):
        resumes = turn.thread.is_of_turn(state) or question is not None
        if resumes and await turn.thread.has_pending_work():
            raise AgentFailed(REDEPLOYED, f"Missing nodes: {', '.join(missing)}.")


def _is_empty(state: StateSnapshot | None) -> bool:
    return state is None or state.metadata is None


def _has_started(request: TurnRequest, turn: GraphTurn) -> bool:
    """Return True if the checkpointer should have stored a state of this turn.

    A state must exist after a handoff or a recorded emission. Without either of these, an earlier attempt may have
    failed before its first step, so a missing state is no error. The exception is the author's InMemorySaver, whose
    state was lost with the process of the earlier attempt.
    """
    if request.turn.handoffs or any(entry.key for entry in request.recorded):
        return True
    return request.turn.tries > 1 and isinstance(turn.own_saver, InMemorySaver)


# ── Context schema and checkpointer ───────────────────────────────────────────────────────────────────────────────────

_ASYNC_METHODS = ("aget_tuple", "aput", "aput_writes")
"""Names of the checkpointer methods that LangGraph calls during a turn."""


class _Configuration(dict[str, Any]):
    """Configuration dict that is truthy even if it is empty, because LangGraph ignores a falsy context."""

    def __bool__(self) -> bool:
        return True


def own_context(graph: Graph, configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the configuration as the context of a graph with its own context schema; None if it has none.

    LangGraph creates an instance of the schema for each turn. Raises AgentLoadError, which names the missing or invalid
    field.
    """
    schema = graph.context_schema
    if schema in (None, AionContext):
        return None
    missing = [name for name in _required(schema) if name not in configuration]
    if missing:
        raise AgentLoadError(
            f"the graph's context schema {_schema_name(schema)} requires {', '.join(missing)}",
            do="Give it under `configuration` in aion.yaml.",
        )
    if dataclasses.is_dataclass(schema) or issubclass(schema, BaseModel):
        try:
            schema(**configuration)
        except (TypeError, ValueError) as error:
            raise AgentLoadError(
                f"`configuration` in aion.yaml does not fit the graph's context schema {_schema_name(schema)}: {_reason(error)}",
                do="Fix the value under `configuration`, or the schema.",
            ) from error
    return _Configuration(configuration)


def check_saver(graph: Graph) -> None:
    """Raise AgentLoadError if the author has compiled the graph with a checkpointer without async methods."""
    saver = graph.checkpointer
    if isinstance(saver, BaseCheckpointSaver) and any(
        _is_unimplemented(getattr(type(saver), name)) for name in _ASYNC_METHODS
    ):
        raise AgentLoadError(
            f"the graph's own checkpointer, {type(saver).__name__}, has no async methods",
            do=f"Compile the graph without it, or with its async version, such as Async{type(saver).__name__}.",
        )


def _required(schema: Any) -> list[str]:
    """Return the names of a context schema's fields that have no default value."""
    if dataclasses.is_dataclass(schema):
        unset = dataclasses.MISSING
        fields = (field for field in dataclasses.fields(schema) if field.init)
        return [field.name for field in fields if field.default is unset and field.default_factory is unset]
    if issubclass(schema, BaseModel):
        return [field.alias or name for name, field in schema.model_fields.items() if field.is_required()]
    # Require no fields of a TypedDict, because a TypedDict does not enforce its fields.
    return []


def _is_unimplemented(method: Any) -> bool:
    # A method whose code names NotImplementedError counts as missing: the base class's methods raise this error, and so
    # do the async methods of LangGraph's synchronous savers.
    code = getattr(inspect.unwrap(method), "__code__", None)
    return code is not None and "NotImplementedError" in code.co_names


def _schema_name(schema: Any) -> str:
    return str(getattr(schema, "__name__", schema))


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{error}."
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}."
