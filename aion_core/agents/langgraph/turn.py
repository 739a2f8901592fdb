"""Execution of one turn of a LangGraph graph, with its persistence, input and stream."""

import copy
import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, get_checkpoint_id
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel._loop import PregelLoop
from langgraph.runtime import RunControl
from langgraph.types import Interrupt, StateSnapshot, StreamMode
from msgspec.structs import replace

from aion_core.agents.author_sleeps import AuthorSleeps
from aion_core.agents.client_answers import interrupt_ids
from aion_core.agents.langgraph.author_emissions import NODE_EMISSIONS
from aion_core.agents.langgraph.callbacks import LangChainCallbacks
from aion_core.agents.langgraph.graph import MESSAGES, Graph, tools_of
from aion_core.agents.langgraph.input_contract import check_input, state_values
from aion_core.agents.langgraph.interrupts import resume_command
from aion_core.agents.langgraph.loop_wakeups import skip_own_wakeups
from aion_core.agents.langgraph.pending_emissions import PendingEmissions
from aion_core.agents.langgraph.redeployment import NODES, has_channel
from aion_core.agents.langgraph.remote_calls import GraphCalls
from aion_core.agents.langgraph.reply_sink import GraphReplySink
from aion_core.agents.langgraph.setup import GraphSetup
from aion_core.agents.langgraph.state import messages_of, values_of
from aion_core.agents.langgraph.thread import GraphThread, config_of
from aion_core.agents.langgraph.traced_callbacks import TracedCallbacks
from aion_core.agents.langgraph.translation import LangGraphTranslator
from aion_core.agents.langgraph.turn_input import clears_outbox, turn_input
from aion_core.agents.langgraph.unreturned_output import UnreturnedOutput
from aion_core.agents.turn_context import context_of
from aion_core.agents.waiting import EagerStream, together
from aion_core.authoring.context import aion_context_set
from aion_core.authoring.emit import emission_listener
from aion_core.authoring.remote import remote_caller_set
from aion_core.authoring.sleeping import sleeper_set
from aion_core.delegation.author_calls import AuthorCalls
from aion_core.engine.agent import Emission, StepCompleted, TurnRequest
from aion_core.engine.fenced_writes import Fence
from aion_core.protocol.types import Message
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.state.langgraph.owner_store import OwnerStore
from aion_core.state.long_term_memory import MemoryScope

STREAM_MODES: list[StreamMode] = ["values", "messages", "custom", "updates", "tasks"]
"""Stream modes of `astream` for every graph."""

WITH_CHECKPOINTS: list[StreamMode] = [*STREAM_MODES, "checkpoints"]
"""Stream modes of `astream` for a graph with a checkpointer, whose steps are logged for the operator."""


# Ignore pydantic's warning about the AionContext, because the warning quotes the whole input of the turn. pydantic
# emits it when LangChain dumps the arguments of a tool with `runtime: ToolRuntime`.
warnings.filterwarnings("ignore", r"(?s)Pydantic serializer warnings:.*input_type=AionContext", UserWarning)


class _NothingToStore:
    """Future that is done, for a subgraph that stores no checkpoint."""

    def __await__(self) -> Iterator[None]:
        return iter(())

    def result(self) -> None:
        """Return at once. See `Future.result`."""


# Set a default future, because with durability "sync" LangGraph waits for the checkpoint of each graph after each step,
# and would fail for a subgraph compiled with `checkpointer=False`, which stores none.
PregelLoop._put_checkpoint_fut = _NothingToStore()  # type: ignore[assignment]


class GraphTurn:
    """Execution of one turn of a graph."""

    def __init__(self, request: TurnRequest, graph: Graph, setup: GraphSetup) -> None:
        self._request, self._setup, self._pending = request, setup, PendingEmissions()
        config = config_of(request.context, request.turn.id, setup.configuration, setup.recursion_limit)
        config["metadata"][NODES] = setup.nodes
        self.own_saver = graph.checkpointer if isinstance(graph.checkpointer, BaseCheckpointSaver) else None
        """Checkpointer with which the author compiled the graph, or None."""
        own_saver, fence = self.own_saver, Fence(request.context, request.fence)
        # Ask the graph that all turns share: the checkpointer would form a reference cycle with this turn's copy.
        has_stored_channel = partial(has_channel, graph)
        # Make a shallow copy for this turn's checkpointer and store. Pregel's own `copy` would validate the whole graph
        # in each turn.
        self._graph = graph = copy.copy(graph)
        saver = None if own_saver is None else lambda: own_saver
        if own_saver is None and setup.savers is not None:
            # Store streamed text by a separate checkpointer that does not wait until emissions are recorded, because
            # the text does not depend on them.
            saver = partial(setup.savers, fence=fence, log_first=_no_wait, types=setup.types)
        self.streamed = UnreturnedOutput(saver, config, returns=MESSAGES in graph.channels)
        if own_saver is None and setup.savers is not None:
            graph.checkpointer = setup.savers(
                fence=fence,
                log_first=partial(_record_emissions, self._pending, self.streamed),
                types=setup.types,
                has_channel=has_stored_channel,
                skips_input=setup.skips_input,
            )
        if graph.store is None and setup.memories is not None:
            scope = MemoryScope(request.context.owner, request.context.agent)
            graph.store = OwnerStore(partial(setup.memories, fence=fence), scope)
        self.nodes = setup.nodes
        """Names of the graph's nodes, from `node_names`."""
        self.durable = saver is not None
        """True if a checkpointer stores the state of the turn."""
        # The state in an author's InMemorySaver is lost with this process, and another one may go on after a wait.
        self.may_suspend = self.durable and not isinstance(own_saver, InMemorySaver)
        """True if another process can go on with the turn after a wait."""
        self.has_ended = False
        """True after the graph's last step: no node is left to run, and no interrupt waits for its answer."""
        self.rejection = ""
        """Reason for refusing an answer of the client's message to one of several interrupts; "" if all are accepted."""
        self.schemas: Mapping[str, Any] = {}
        """Schema that has refused an answer, by the id of its interrupt. It may differ from the stored interrupt's."""
        self.thread = GraphThread(graph, config, durable=self.durable)
        observed = request.task.id, self.streamed, graph, request.check_lease
        self._observer = TracedCallbacks(*observed, request.trace) if request.trace else LangChainCallbacks(*observed)
        self._config: RunnableConfig = {**config, "callbacks": [self._observer]}

    def graph_input(self, state: StateSnapshot | None, question: Message | None, pending: list[Interrupt]) -> Any:
        """Return the graph's input: the message, the answer to an interrupt, or None to resume without input.

        Raises InvalidResumeInput if no pending interrupt accepts its answer, and AgentFailed if the message cannot reach
        the state.
        """
        if question is not None and state is not None:
            tools = {name for name, _ in tools_of(self._graph)}
            command, self.rejection = resume_command(self._request, question, pending, tools)
            if command is not None:
                return command
            if state.tasks or self.thread.is_of_turn(state):
                # Resume without input: the graph has paused at a breakpoint, or an earlier attempt has used the answer.
                return None
        if state is not None and self.thread.is_run_by(state, self._request.message.message_id):
            return None
        parts, values = self._request.message.parts, values_of(state)
        check_input(self._graph, parts, values)
        given, filled = turn_input(self._graph, self._request, messages_of(values)), state_values(self._graph, parts)
        return {**given, **filled} if filled else given

    async def translator(self, state: StateSnapshot | None, question: Message | None) -> LangGraphTranslator:
        """Return the translator of the turn's stream, initialised with the turn's earlier output."""
        # Treat a turn that answers an interrupt as possibly begun. If it was lost within its first step, the stored
        # state still belongs to the interrupted turn before it.
        may_have_begun = self.thread.is_of_turn(state) or question is not None
        history = await self.thread.history(state, interrupt_ids(question))
        if question is None and (given := state_values(self._graph, self._request.message.parts)):
            # Count the values of the client's message as part of the state before the turn: the answer contains only
            # values that differ from this state.
            history = replace(history, before={**history.before, **given}, given=given)
        return LangGraphTranslator(
            self._request,
            self._graph,
            history,
            self.streamed,
            earlier=await self.streamed.load_earlier() if may_have_begun else None,
            clears_outbox=clears_outbox(self._graph),
        )

    async def stream(self, graph_input: Any, translator: LangGraphTranslator) -> AsyncGenerator[Emission, None]:
        """Run the graph to its end and yield its emissions. Raises GraphDrained if the runner's deadline stops it."""
        graph, pending = self._graph, self._pending
        context = context_of(self._request, GraphReplySink(self._request), name=self._setup.name)
        calling = GraphCalls(self._request.turn.id, may_suspend=self.may_suspend)
        remote_calls = AuthorCalls(self._request, self._setup.remotes, calling)
        sleeps = AuthorSleeps(self._request.sleeps, calling)
        skip_own_wakeups()
        token, stream = emission_listener.set(pending.add), None
        stored_by: dict[tuple[str, ...], str] = {}
        """Source of the newest checkpoint of the graph and of each subgraph in this run, by namespace."""
        try:
            with aion_context_set(context), remote_caller_set(remote_calls.call), sleeper_set(sleeps.sleep):
                steps = graph.astream(
                    graph_input,
                    self._config,
                    # Pass the author's context to a graph with its own context schema. Such a graph gets the
                    # AionContext by get_aion_context().
                    context=context if self._setup.context is None else copy.deepcopy(self._setup.context),
                    stream_mode=WITH_CHECKPOINTS if self.durable else STREAM_MODES,
                    subgraphs=True,
                    durability="sync" if self.durable else None,
                    # Let this run control stop the graph when the deadline is near. Without stored steps, no process
                    # could resume.
                    control=_Drain(self._request) if self.durable else None,
                )
                event: Any
                stream = EagerStream(steps)
                pending.reading = True
                async for event in stream:
                    if event[1] == "tasks" and "result" not in event[2]:
                        if not event[0] and translator.said:
                            for emission in translator.before_node():
                                yield emission
                        continue
                    pending.event_received()
                    if event[1] == "custom" and _is_emission(event):
                        # With an own checkpointer, LangGraph does not wait for the recorded emissions: do not run ahead.
                        events = [event, *(stream.waiting(_is_emission) if self.own_saver is None else ())]
                        for emission in together(each for one in events for each in translator.translate(*one)):
                            yield emission
                        # Mark the emissions as recorded: the runner records an emission before it requests the next.
                        for one in events:
                            pending.mark_recorded(one[2])
                        pending.reading = True
                        continue
                    for emission in translator.translate(*event):
                        yield emission
                    if event[1] == "checkpoints":
                        self._observer.step_stored()
                        if not event[0]:
                            self.has_ended = not event[2]["next"]
                            self._join_step(event[2])
                        before, source = stored_by.get(event[0]), event[2]["metadata"]["source"]
                        stored_by[event[0]] = source
                        # Count no step for the checkpoint from which a run resumes, which LangGraph emits again, nor for
                        # the one after the input: no node has run since.
                        if source == "loop" and before not in (None, "input"):
                            yield StepCompleted()
                    pending.reading = True
        except BaseException:
            pending.abort()
            raise
        finally:
            remote_calls.close()
            pending.close()
            if stream is not None:
                await stream.stop()
            try:  # noqa: SIM105  # `suppress` makes three calls
                emission_listener.reset(token)
            except ValueError:
                pass  # see `variable_set`

    def _join_step(self, stored: Mapping[str, Any]) -> None:
        """Let aion's checkpointer write the result of a one-node step together with the checkpoint after it.

        `stored` is the event of the checkpoint before the step. LangGraph runs the step's nodes after this event.
        """
        saver = self._graph.checkpointer
        if isinstance(saver, TableSaver) and len(stored["next"]) == 1:
            saver.join_step(get_checkpoint_id(stored["config"]) or "")


async def _record_emissions(pending: PendingEmissions, streamed: UnreturnedOutput) -> None:
    """Wait until the pending emissions are recorded, then store the streamed text."""
    await pending.wait_recorded()
    await streamed.store()


def _is_emission(event: Any) -> bool:
    """Return True for an event of astream that records something in the task."""
    return isinstance(event[2], NODE_EMISSIONS)


class _Drain(RunControl):
    """LangGraph run control that stops the graph at the next step boundary when the runner's deadline is near.

    It works even if a node blocks the event loop.
    """

    def __init__(self, request: TurnRequest) -> None:
        super().__init__()
        self._drain = request.drain

    @property
    def drain_requested(self) -> bool:
        """True when the runner's deadline is near. See `RunControl.drain_requested`."""
        return self._drain.is_set() or super().drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Reason for stopping the graph. See `RunControl.drain_reason`."""
        return "deadline" if self._drain.is_set() else super().drain_reason


async def _no_wait() -> None:
    """Return at once, because storing streamed text does not depend on recorded emissions."""
