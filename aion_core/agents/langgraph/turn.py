"""One turn of a graph: where it is kept, what the graph is called with, and what it streams."""

import asyncio
import copy
import logging
import threading
import warnings
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_stream_writer
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Interrupt, StateSnapshot, StreamMode

from aion_core.agents.inbound import context_of, interrupt_ids
from aion_core.agents.langgraph.interrupts import resume_command
from aion_core.agents.langgraph.outbound import NODE_EMISSIONS, GraphReplySink, LangGraphOutbound, is_internal
from aion_core.agents.langgraph.thread import (
    MESSAGES,
    NODES,
    Graph,
    GraphThread,
    StreamedText,
    clears_outbox,
    messages_of,
    turn_input,
    values_of,
)
from aion_core.agents.outbound import InternalEvents, StreamAborted
from aion_core.authoring.context import aion_context_set
from aion_core.authoring.emit import handed
from aion_core.checkpointing.persistence import BeforePut, OwnerStore
from aion_core.errors import LeaseLost
from aion_core.ports import Emission, LongTermMemory, MemoryScope, StepCompleted, TurnRequest
from aion_core.protocol.types import Message
from aion_core.stores.keys import thread_id
from aion_core.stores.retries import Fence

logger = logging.getLogger(__name__)

# ── Emissions ─────────────────────────────────────────────────────────────────────────────────────────────────────────

IDLE_SECONDS, IDLE_ROUNDS = 0.1, 3
"""How long the reader of the graph's stream may have nothing to read, and how often in a row, before an emission that
has not reached it is given up: it went to a stream of the author's own, or to none.

More than once, since a node that blocks the loop delays the emission and the patience alike.
"""


class PendingEmissions:
    """Knows a turn's durable emissions: handed over by its nodes, from any thread, and recorded by its runner.

    LangGraph takes a node for finished once its writes are stored. Were they stored before the node's emissions are in the
    log, a crash in between would lose these for good: the node does not run again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By identity: two emissions may be equal.
        self._pending: dict[int, object] = {}
        self._reading = False
        self._events = 0
        self._aborted = False
        self._closed = False
        self._changed = asyncio.Event()

    def add(self, emission: object) -> None:
        """Note that a node is handing over an emission."""
        with self._lock:
            self._pending[id(emission)] = emission
        if self._closed:
            logger.warning("The agent went on after its turn's end: what it says is ignored.")

    def wait_for_event(self) -> None:
        """Note that whoever reads the stream waits for what comes next."""
        self._reading = True

    def event_received(self) -> None:
        """Note that something has come; until `read` it is being recorded and spoken."""
        self._reading = False
        self._events += 1

    def mark_recorded(self, emission: object) -> None:
        """Note that the emission is in the log."""
        with self._lock:
            self._pending.pop(id(emission), None)
        self._changed.set()

    def abort(self) -> None:
        """Note that the turn is cut: what is under way will not be recorded."""
        self._aborted = True
        self._changed.set()

    def close(self) -> None:
        """Note that the turn has ended: what is handed over from here on goes nowhere."""
        self._closed = True

    async def wait_recorded(self) -> None:
        """Return when all that has been handed over by now is recorded; raises LeaseLost where it never will be."""
        with self._lock:
            awaited = dict(self._pending)
        idle = 0
        while any(key in self._pending for key in awaited):
            if self._aborted:
                raise LeaseLost("The turn was cut before its last words were recorded.")
            self._changed.clear()
            reading, events = self._reading, self._events
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._changed.wait()
                idle = 0
            except TimeoutError:
                idle = idle + 1 if reading and events == self._events else 0
                if idle == IDLE_ROUNDS:
                    logger.warning("An emission did not reach the turn's own stream: nobody is told of it.")
                    with self._lock:
                        for key in awaited:
                            self._pending.pop(key, None)


# ── Callbacks of LangChain ────────────────────────────────────────────────────────────────────────────────────────────


class LangChainCallbacks(BaseCallbackHandler):
    """Hears one turn's model calls and tools, and logs them as `internal:*` events.

    `StreamedText` is told what a model has said before its node ends; the turn's own stream, that a call has broken off.
    """

    # In the thread that calls, so that the lines stand in the order of what they tell.
    run_inline = True

    def __init__(self, task_id: str, streamed: StreamedText) -> None:
        self._internal, self._streamed = InternalEvents(task_id), streamed
        self._tools: dict[UUID, str] = {}
        self._visible: set[UUID] = set()
        self._nodes: set[UUID] = set()
        self._message_ids: dict[UUID, str] = {}
        """The ids of the messages of the calls that stream."""

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log `internal:llm-call`, with which of the turn's calls it is."""
        self._internal.llm_call()
        if TAG_NOSTREAM not in (tags or ()) and not is_internal(metadata or {}):
            self._visible.add(run_id)

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that this call streams, and under which id."""
        if run_id in self._visible:
            self._visible.discard(run_id)
            self._streamed.start(run_id)
            self._message_ids[run_id] = getattr(getattr(kwargs.get("chunk"), "message", None), "id", None) or ""

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what the call has said."""
        self._visible.discard(run_id)
        self._message_ids.pop(run_id, None)
        for generation in response.generations[0][:1] if response.generations else ():
            if isinstance(generation, ChatGeneration):
                self._streamed.complete(run_id, generation.message)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Let the turn's own stream know that the call has broken off, in line with what it has said."""
        self._visible.discard(run_id)
        if message_id := self._message_ids.pop(run_id, ""):
            # Outside of a node, or after the stream has ended, there is nobody to tell.
            with suppress(Exception):
                get_stream_writer()(StreamAborted(message_id))

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a node begins, as against a chain within it."""
        if metadata and kwargs.get("name") == metadata.get("langgraph_node"):
            self._nodes.add(run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what the node has returned."""
        if run_id in self._nodes:
            self._nodes.discard(run_id)
            self._streamed.remove_returned(outputs)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        """See `on_chat_model_start`."""
        self._internal.llm_call()

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-start`; the arguments are not logged."""
        call_id = str(kwargs.get("tool_call_id") or run_id)
        self._tools[run_id] = call_id
        self._internal.tool_start(str((serialized or {}).get("name", "")), call_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete`."""
        self._tool_ended(run_id, success=getattr(output, "status", "success") != "error")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Log `internal:tool-complete`, without success."""
        self._tool_ended(run_id, success=False)

    def step_stored(self) -> None:
        """Log `internal:checkpoint`: a step of the graph is stored."""
        self._internal.checkpoint()

    def _tool_ended(self, run_id: UUID, *, success: bool) -> None:
        self._internal.tool_complete(self._tools.pop(run_id, str(run_id)), success=success)


# ── Turn ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

STREAM_MODES: list[StreamMode] = ["values", "messages", "custom", "updates"]
"""R59."""
WITH_CHECKPOINTS: list[StreamMode] = [*STREAM_MODES, "checkpoints"]
"""Where there are any: the operator's log says so (R38)."""

# A tool with `runtime: ToolRuntime` has LangChain dump its arguments, and pydantic then warns, with all that the turn was
# asked, that the context is not None.
warnings.filterwarnings("ignore", r"(?s)Pydantic serializer warnings:.*input_type=AionContext", UserWarning)


class SaverFactory(Protocol):
    """Factory of savers, one or more for each turn."""

    def __call__(self, *, fence: Fence, before_put: BeforePut, types: Collection[type]) -> BaseCheckpointSaver[Any]:
        """Return a saver whose writes depend on the fence, and follow a call of `before_put`.

        `types` are the author's own, which checkpoints may hold.
        """
        ...


class MemoryFactory(Protocol):
    """Factory of long-term memories, at most one for each turn."""

    def __call__(self, *, fence: Fence) -> LongTermMemory:
        """Return the memory, whose writes depend on the fence."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSetup:
    """What all turns of an agent are given."""

    name: str
    """The agent's own."""
    configuration: Mapping[str, Any]
    """The author's own settings."""
    context: Mapping[str, Any] | None
    """The graph's context, where its schema is its own; None where it is the turn's AionContext."""
    savers: SaverFactory | None
    memories: MemoryFactory | None
    types: Collection[type]
    """The author's classes that checkpoints may hold."""
    nodes: str
    """The names of the graph's nodes."""


def config_of(request: TurnRequest, configuration: Mapping[str, Any]) -> RunnableConfig:
    """Return the config of a turn: the author's own settings are configurable, and the server's keys win over them."""
    own = {key: value for key, value in configuration.items() if key not in _RESERVED_KEYS and not key.startswith("__")}
    return {
        "configurable": {**copy.deepcopy(own), "thread_id": thread_id(request.context)},
        # LangGraph takes input under the run_id of the newest checkpoint for a resume_command of that run (pinned by
        # tests/unit/agents/langgraph/test_pins.py): the same call starts a turn, resumes it, and does nothing after it.
        "metadata": {"run_id": request.turn.id},
    }


_RESERVED_KEYS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"})
"""The configurable keys by which LangGraph finds a turn's state; those that begin with two underscores are its own too."""


class GraphTurn:
    """A turn whose message is asked."""

    def __init__(self, request: TurnRequest, graph: Graph, setup: GraphSetup) -> None:
        self._request, self._setup, self._pending = request, setup, PendingEmissions()
        config = config_of(request, setup.configuration)
        config["metadata"][NODES] = setup.nodes
        self.own_saver = graph.checkpointer if isinstance(graph.checkpointer, BaseCheckpointSaver) else None
        """What the graph keeps its state in, where its author has chosen that."""
        saver, fence = self.own_saver, Fence(request.context, request.fence)
        if saver is None and setup.savers is not None:
            saver = setup.savers(fence=fence, before_put=self._record_emissions, types=setup.types)
            graph = graph.copy(update={"checkpointer": saver})
            saver = setup.savers(fence=fence, before_put=_no_wait, types=setup.types)
        if graph.store is None and setup.memories is not None:
            scope = MemoryScope(request.context.owner, request.context.agent)
            graph = graph.copy(update={"store": OwnerStore(partial(setup.memories, fence=fence), scope)})
        self._graph = graph
        self.durable = saver is not None
        """Whether anything of the turn is kept at all."""
        self.thread = GraphThread(graph, config, durable=self.durable)
        self.streamed = StreamedText(saver, config, returns=MESSAGES in graph.channels)
        self._observer = LangChainCallbacks(request.task.id, self.streamed)
        self._config: RunnableConfig = {**config, "callbacks": [self._observer]}

    def graph_input(self, state: StateSnapshot | None, question: Message | None, pending: list[Interrupt]) -> Any:
        """Return what the graph is called with: the message, or the answer to what it has asked.

        Raises Unfit where the message is no answer to that.
        """
        if question is not None and state is not None:
            if (command := resume_command(self._request, question, pending)) is not None:
                return command
            if state.tasks or self.thread.is_of_turn(state):
                # It had paused before a node, or the answer was taken and then the process died: it goes on.
                return None
        return turn_input(self._graph, self._request, messages_of(values_of(state)))

    async def outbound(self, state: StateSnapshot | None, question: Message | None) -> LangGraphOutbound:
        """Return what hears the turn, with all that was heard of it before."""
        # An answer's first step may have been cut before it was closed: the state is still the asking turn's then.
        may_have_begun = self.thread.is_of_turn(state) or question is not None
        return LangGraphOutbound(
            self._request,
            await self.thread.history(state, interrupt_ids(question)),
            self.streamed,
            earlier=await self.streamed.load_earlier() if may_have_begun else "",
            clears_outbox=clears_outbox(self._graph),
            functional=not isinstance(self._graph, CompiledStateGraph),
        )

    async def stream(self, graph_input: Any, outbound: LangGraphOutbound) -> AsyncGenerator[Emission, None]:
        """Run the graph as far as it goes; raises GraphDrained where it was asked to stop before its end."""
        graph, pending = self._graph, self._pending
        context = context_of(self._request, GraphReplySink(self._request), name=self._setup.name)
        token = handed.set(pending.add)
        try:
            with aion_context_set(context):
                stream = graph.astream(
                    graph_input,
                    self._config,
                    # A graph with a context of its own asks get_aion_context() for ours.
                    context=context if self._setup.context is None else copy.deepcopy(self._setup.context),
                    stream_mode=WITH_CHECKPOINTS if self.durable else STREAM_MODES,
                    subgraphs=True,
                    durability="sync" if self.durable else None,
                    # Whoever goes on has to find where it was.
                    control=_Drain(self._request) if self.durable else None,
                )
                event: Any
                pending.wait_for_event()
                async for event in stream:
                    pending.event_received()
                    for emission in outbound.translate(*event):
                        yield emission
                    if event[1] == "checkpoints":
                        self._observer.step_stored()
                        if event[2]["metadata"]["source"] == "loop":
                            yield StepCompleted()
                    # Whoever asks for what comes next has recorded what came.
                    if isinstance(event[2], NODE_EMISSIONS):
                        pending.mark_recorded(event[2])
                    pending.wait_for_event()
        except BaseException:
            pending.abort()
            raise
        finally:
            pending.close()
            with suppress(ValueError):
                handed.reset(token)

    async def _record_emissions(self) -> None:
        await self._pending.wait_recorded()
        await self.streamed.store()


class _Drain(RunControl):
    """Stops the graph at the next step boundary once the runner's time is up, even if a node blocks the loop till then."""

    def __init__(self, request: TurnRequest) -> None:
        super().__init__()
        self._drain = request.drain

    @property
    def drain_requested(self) -> bool:
        """See `RunControl.drain_requested`."""
        return self._drain.is_set() or super().drain_requested

    @property
    def drain_reason(self) -> str | None:
        """See `RunControl.drain_reason`."""
        return "deadline" if self._drain.is_set() else super().drain_reason


async def _no_wait() -> None:
    """Wait for nothing: what is kept beside the thread is what was said, not what came of it."""
