"""Input of a turn for its graph, and the graph's thread: what it value before the turn, and has to hold after it."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import TASKS
from langgraph.channels import LastValue
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.pregel._read import PregelNode
from langgraph.pregel._task_status import read_task_statuses
from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry, ChannelWriteTupleEntry
from langgraph.types import Command, Interrupt, StateSnapshot

from aion_core.agents.inbound import inbox_of, text_of
from aion_core.errors import LeaseLost, StoreError
from aion_core.ports import TurnRequest
from aion_core.protocol.types import Message

logger = logging.getLogger(__name__)

Graph = Pregel[Any, Any, Any, Any]

MESSAGES, INBOX, OUTBOX = "messages", "a2a_inbox", "a2a_outbox"


# ── Nodes of the graph ────────────────────────────────────────────────────────────────────────────────────────────────

NODES = "aion:nodes"
"""The key in a checkpoint's metadata under which the names of its graph's nodes stand."""

REDEPLOYED = "The agent was deployed anew with other steps in the middle of this turn; send the message again."


def node_names(graph: Graph) -> str:
    """Return the names of the graph's nodes, and of its subgraphs', whatever their order."""
    return "\n".join(sorted(_names(graph)))


def has_nodes(graph: Graph, metadata: Mapping[str, Any] | None) -> bool:
    """Return True if the graph has all nodes of the graph that wrote the checkpoint with this metadata.

    LangGraph cannot resume a thread on a graph that has lost some: it ends the run at once, as if nothing were left to do.
    """
    written_by = (metadata or {}).get(NODES, "")
    return set(written_by.split("\n")) <= {"", *_names(graph)}


def _names(graph: Graph) -> Iterator[str]:
    yield from graph.nodes
    for namespace, nested in graph.get_subgraphs(recurse=True):
        if isinstance(nested, Pregel):  # a RemoteGraph is deployed by itself
            yield from (f"{namespace}|{name}" for name in nested.nodes)


# ── Text that no state holds ──────────────────────────────────────────────────────────────────────────────────────────

STREAMED_NAMESPACE = "aion:streamed"
"""The checkpoint_ns of the record, one for each turn: in the thread, and out of the graph's sight."""


class StreamedText:
    """Knows what the model calls of a turn have streamed, and keeps the last that no node has returned (R81).

    Text that a node streams and does not return would be gone with its process: a node that has ended does not run again.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any] | None, config: RunnableConfig, *, returns: bool) -> None:
        """`returns`: whether the state has messages, and what a node returns of them is kept there."""
        self._saver, self._returns = saver, returns
        self._turn = config["metadata"]["run_id"]
        place = {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": STREAMED_NAMESPACE}
        self._config: RunnableConfig = {"configurable": place, "metadata": {"run_id": self._turn}}
        self._checkpoint = empty_checkpoint()
        self._streaming: set[UUID] = set()
        self._unreturned: dict[str, str] = {}
        self._stored = ""

    def start(self, call: UUID) -> None:
        """Note that the client hears this model call."""
        self._streaming.add(call)

    def complete(self, call: UUID, message: BaseMessage) -> None:
        """Note what a model call has said as a whole."""
        if call in self._streaming:
            self._streaming.discard(call)
            if message.text:
                self._unreturned[message.id or str(call)] = str(message.text)

    def add_emitted(self, call: str, text: str) -> None:
        """Note a chunk that a node has emitted."""
        self._unreturned[call] = self._unreturned.get(call, "") + text

    def remove_returned(self, output: Any) -> None:
        """Note what a node has returned: the messages in there are the state's to keep."""
        if self._returns and self._unreturned:
            for message in _messages_in(output):
                self._unreturned.pop(message.id or "", None)

    async def store(self) -> None:
        """Keep what no node has returned, unless it is kept already."""
        text = next(reversed(self._unreturned.values()), "")
        if self._saver is not None and text != self._stored:
            metadata: Any = {"source": "update", "step": 0, "parents": {}, "text": text}
            await self._saver.aput(self._config, self._checkpoint, metadata, {})
            self._stored = text

    async def load_earlier(self) -> str:
        """Return what another process of this turn has kept."""
        found = await self._saver.aget_tuple(self._config) if self._saver is not None else None
        metadata: Mapping[str, Any] | CheckpointMetadata = found.metadata if found is not None else {}
        return str(metadata.get("text", "")) if metadata.get("run_id") == self._turn else ""


def _messages_in(output: Any) -> Iterator[BaseMessage]:
    if isinstance(output, BaseMessage):
        yield output
    elif isinstance(output, Command):
        yield from _messages_in(output.update)
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _messages_in(value)
    elif isinstance(output, list | tuple):
        for value in output:
            if isinstance(value, BaseMessage | Command):
                yield from _messages_in(value)


# ── Thread ────────────────────────────────────────────────────────────────────────────────────────────────────────────

SENT_NODE = "aion:sent"
"""The node that what was sent is written as; it triggers nothing, and no edge of the author's follows from it."""
_TRIGGERS = "branch:to:"
"""What the channels begin with that say which node runs next."""


@dataclass(frozen=True, slots=True)
class StateHistory:
    """What the thread has seen before this process took the turn up."""

    before: Mapping[str, Any]
    """The state's values as the turn found them."""
    since: Sequence[Mapping[str, Any]] = ()
    """The values after each step that the turn has made so far, in order."""


class GraphThread:
    """The thread of one turn; of a graph without a checkpointer, empty."""

    def __init__(self, graph: Graph, config: RunnableConfig, *, durable: bool) -> None:
        self._graph, self._config, self._durable = graph, config, durable

    async def state(self) -> StateSnapshot | None:
        """Return the state as it is now, None where none is kept; of what is unfinished, the subgraphs' too."""
        return await self._graph.aget_state(self._config, subgraphs=True) if self._durable else None

    def is_of_turn(self, state: StateSnapshot | None) -> bool:
        """Tell whether the turn has written the state, and so has begun."""
        return state is not None and (state.metadata or {}).get("run_id") == self._config["metadata"]["run_id"]

    async def pending_interrupts(self, state: StateSnapshot | None, *, may_be_torn: bool) -> list[Interrupt]:
        """Return what is asked, as the innermost graphs know it.

        A subgraph's question is stored with the subgraph, then with the node that the subgraph is. A turn that is cut in
        between, or drained within the subgraph, leaves the node with a question that has been answered, whose answer
        LangGraph would take for the next. `may_be_torn`: the turn may have been cut; then graphs are looked for that LangGraph
        does not see, such as one that a tool calls.
        """
        if state is None:
            return []
        pending: list[Interrupt] = []
        namespace = state.config["configurable"].get("checkpoint_ns", "")
        for task in state.tasks:
            if isinstance(task.state, StateSnapshot) and task.state.tasks:
                pending += await self.pending_interrupts(task.state, may_be_torn=may_be_torn)
            elif may_be_torn and task.interrupts:
                task_ns = f"{task.name}:{task.id}"
                pending += (
                    await self._nested_interrupts(f"{namespace}|{task_ns}" if namespace else task_ns) or task.interrupts
                )
            else:
                pending += task.interrupts
        return pending

    async def _nested_interrupts(self, namespace: str) -> list[Interrupt]:
        saver, place = self._graph.checkpointer, {**self._config["configurable"], "checkpoint_ns": namespace}
        if not isinstance(saver, BaseCheckpointSaver):
            return []
        found = await saver.aget_tuple({"configurable": place})
        statuses = read_task_statuses((found.pending_writes or ()) if found is not None else ())
        return [interrupt for status in statuses.values() for interrupt in status.pending_interrupts]

    async def has_pending_work(self) -> bool:
        """Tell whether something is left to do, whatever graph has left it."""
        saver = self._graph.checkpointer
        found = await saver.aget_tuple(self._config) if isinstance(saver, BaseCheckpointSaver) else None
        values = found.checkpoint["channel_values"] if found is not None else {}
        return any(value or channel.startswith(_TRIGGERS) for channel, value in values.items() if _is_pending(channel))

    async def history(self, state: StateSnapshot | None, answered: Collection[str]) -> StateHistory:
        """Return what the turn has found, and made so far; `asked` are the ids of the questions it answers one of."""
        if state is None or not self.is_of_turn(state):
            # By its checkpoint: as of the start of the step in which it was asked, that step's results beside it.
            start = await self._graph.aget_state(state.config) if state is not None and answered else state
            return StateHistory(finished_values(start, answered) if start is not None else {})
        since: list[Mapping[str, Any]] = []
        async for snapshot in self._graph.aget_state_history(self._config):
            if not self.is_of_turn(snapshot):
                return StateHistory(finished_values(snapshot, answered), since[::-1])
            since.append(values_of(snapshot))
        return StateHistory({}, since[::-1])

    async def store_sent(self, sent: Sequence[Message]) -> None:
        """See to it that the state holds what was sent, as AIMessages of the messages' ids (R79).

        The client has, or will have, its answer: where this cannot be done it is logged, and no more.
        """
        if not self._durable or MESSAGES not in self._graph.channels:
            return
        try:
            state = await self._graph.aget_state(self._config)
            values = values_of(state)
            value = values.get(MESSAGES) or []
            known = {message.id for message in messages_of(values)}
            missing = [_ai_message(message) for message in sent if message.message_id not in known]
            if missing:
                # A channel without a reducer holds what is written last: the messages that are there come along.
                whole = isinstance(self._graph.channels[MESSAGES], LastValue)
                await self._write(missing if not whole else [*value, *missing])
        except (LeaseLost, StoreError):
            raise
        except Exception:
            logger.exception("The state does not take what was sent; the conversation goes on without it.")

    async def _write(self, messages: Sequence[BaseMessage]) -> None:
        node = PregelNode(channels=[], triggers=[], writers=[ChannelWrite([ChannelWriteEntry(MESSAGES)])])
        graph = self._graph.copy(update={"nodes": {**self._graph.nodes, SENT_NODE: node}})
        await graph.aupdate_state(self._config, messages, as_node=SENT_NODE)


def values_of(state: StateSnapshot | None) -> Mapping[str, Any]:
    """Return a state's values by their channels; of a functional graph, none."""
    values = state.values if state is not None else None
    return values if isinstance(values, dict) else {}


def messages_of(values: Any) -> list[BaseMessage]:
    """Return the messages among the values."""
    return as_messages(values.get(MESSAGES)) if isinstance(values, Mapping) else []


def as_messages(value: Any) -> list[BaseMessage]:
    """Return the messages that are value, in whichever form LangChain takes them; what is none is left out."""
    if isinstance(value, BaseMessage):
        return [value]
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    messages: list[BaseMessage] = []
    for message in value:
        if isinstance(message, BaseMessage):
            messages.append(message)
        elif isinstance(message, dict | tuple):
            with suppress(ValueError, TypeError, KeyError, NotImplementedError):
                messages += convert_to_messages([message])
    return messages


def finished_values(snapshot: StateSnapshot, answered: Collection[str]) -> Mapping[str, Any]:
    """Return the values of the step at which the turn took an answer, with what had ended by then in that step.

    A node whose question was still open, one of `asked`, has ended since, if it has.
    """
    values = values_of(snapshot)
    ended = [
        message
        for task in snapshot.tasks
        if isinstance(task.result, dict) and not any(interrupt.id in answered for interrupt in task.interrupts)
        for message in messages_of(task.result)
    ]
    return {**values, MESSAGES: [*messages_of(values), *ended]} if answered and ended else values


def _is_pending(channel: str) -> bool:
    return channel in (START, TASKS) or channel.startswith((_TRIGGERS, "join:"))


def _ai_message(message: Message) -> AIMessage:
    text = "".join(part.text for part in message.parts if part.WhichOneof("content") == "text")
    return AIMessage(text, id=message.message_id)


def turn_input(graph: Graph, request: TurnRequest, before: Sequence[BaseMessage] = ()) -> dict[str, Any]:
    """Return the input of the turn, for the channels that the graph's state has; all of it to a functional graph.

    `messages`: one HumanMessage, where the message has text; its content is the text parts in order (R49, R50) and its
    id the messageId, so that a repeat adds nothing (R52). `a2a_inbox`: the envelope (R51). `a2a_outbox`: empty, since
    what an earlier turn put there was that turn's.

    `before` are the messages of the state as the turn finds it: tool calls that an earlier turn left open, because it
    failed or was cut, are answered first, since no model takes a conversation with an open one.
    """
    text = text_of(request)
    human = [HumanMessage(content=text, id=request.message.message_id)] if text else []
    given = {
        MESSAGES: [*cancelled_tool_calls(before), *human],
        INBOX: inbox_of(request),
        OUTBOX: None,
    }
    if not isinstance(graph, CompiledStateGraph):
        # A functional graph has no state: its entrypoint is handed all there is.
        return {MESSAGES: given[MESSAGES], INBOX: given[INBOX]}
    return {channel: value for channel, value in given.items() if channel in graph.channels}


def with_envelopes(graph: Graph) -> Graph:
    """Return the graph with its input let through to `a2a_inbox` and `a2a_outbox`, where its input schema has them not.

    LangGraph's START writes what the input schema names; what of the envelopes that leaves out is written beside it.
    """
    if not isinstance(graph, CompiledStateGraph):
        return graph
    named = graph.builder.schemas[graph.builder.input_schema]
    left_out = [
        channel
        for channel in (INBOX, OUTBOX)
        if channel not in named and isinstance(graph.channels.get(channel), LastValue)
    ]
    if not left_out:
        return graph

    def envelopes(given: Any) -> list[tuple[str, Any]]:
        return [(channel, given[channel]) for channel in left_out if isinstance(given, dict) and channel in given]

    # First: a conditional edge at START may look at them.
    writers = [ChannelWrite((ChannelWriteTupleEntry(mapper=envelopes),)), *graph.nodes[START].writers]
    return graph.copy(update={"nodes": {**graph.nodes, START: graph.nodes[START].copy({"writers": writers})}})


def clears_outbox(graph: Graph) -> bool:
    """Tell whether the input empties the outbox of an earlier turn: a reducer may not let it through."""
    return isinstance(graph.channels.get(OUTBOX), LastValue)


def cancelled_tool_calls(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return an answer for each tool call that has none: it was canceled."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return [
        ToolMessage("canceled", tool_call_id=call["id"], name=call["name"], status="error")
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] and call["id"] not in answered
    ]
