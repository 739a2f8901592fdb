"""LangGraph thread of a turn: the graph's input, the stored state before the turn, and the updates after it."""

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
"""Key in a checkpoint's metadata for the names of its graph's nodes."""

REDEPLOYED = "The agent was deployed with other nodes in the middle of this turn; send the message again."


def node_names(graph: Graph) -> str:
    """Return the sorted names of the nodes of the graph and its subgraphs."""
    return "\n".join(sorted(_names(graph)))


def has_nodes(graph: Graph, metadata: Mapping[str, Any] | None) -> bool:
    """Return True if the graph still has all nodes of the graph that wrote the checkpoint with this metadata.

    LangGraph ends such a resumed run at once if nodes are missing, as if nothing were left to do.
    """
    written_by = (metadata or {}).get(NODES, "")
    return set(written_by.split("\n")) <= {"", *_names(graph)}


def _names(graph: Graph) -> Iterator[str]:
    yield from graph.nodes
    for namespace, nested in graph.get_subgraphs(recurse=True):
        if isinstance(nested, Pregel):  # a RemoteGraph is deployed separately
            yield from (f"{namespace}|{name}" for name in nested.nodes)


# ── Text that no state holds ──────────────────────────────────────────────────────────────────────────────────────────

STREAMED_NAMESPACE = "aion:streamed"
"""The checkpoint_ns of the record, one for each turn: part of the thread, invisible to the graph."""


class StreamedText:
    """Text streamed by a turn's model calls. The last text not returned by any node is stored.

    A finished node does not run again, so streamed but unreturned text would be lost with the process.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any] | None, config: RunnableConfig, *, returns: bool) -> None:
        """Start without text. `returns`: the state has messages, and so stores the returned ones."""
        self._saver, self._returns = saver, returns
        self._turn = config["metadata"]["run_id"]
        place = {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": STREAMED_NAMESPACE}
        self._config: RunnableConfig = {"configurable": place, "metadata": {"run_id": self._turn}}
        self._checkpoint = empty_checkpoint()
        self._streaming: set[UUID] = set()
        self._unreturned: dict[str, str] = {}
        self._stored = ""

    def start(self, call: UUID) -> None:
        """Mark this model call as visible to the client."""
        self._streaming.add(call)

    def complete(self, call: UUID, message: BaseMessage) -> None:
        """Add the complete message of a model call."""
        if call in self._streaming:
            self._streaming.discard(call)
            if message.text:
                self._unreturned[message.id or str(call)] = str(message.text)

    def add_emitted(self, call: str, text: str) -> None:
        """Add a chunk that a node emitted."""
        self._unreturned[call] = self._unreturned.get(call, "") + text

    def remove_returned(self, output: Any) -> None:
        """Remove the messages that a node returned: the state stores those."""
        if self._returns and self._unreturned:
            for message in _messages_in(output):
                self._unreturned.pop(message.id or "", None)

    async def store(self) -> None:
        """Store the last unreturned text, unless it is stored already."""
        text = next(reversed(self._unreturned.values()), "")
        if self._saver is not None and text != self._stored:
            metadata: Any = {"source": "update", "step": 0, "parents": {}, "text": text}
            await self._saver.aput(self._config, self._checkpoint, metadata, {})
            self._stored = text

    async def load_earlier(self) -> str:
        """Return the text that another process of this turn stored."""
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
"""Name of the node that writes the sent messages. It triggers nothing, and no edge of the author starts at it."""
_TRIGGERS = "branch:to:"
"""Prefix of the channels that name the next node."""


@dataclass(frozen=True, slots=True)
class StateHistory:
    """Values of the state before the turn and after each of its stored steps."""

    before: Mapping[str, Any]
    """Values of the state at the start of the turn."""
    since: Sequence[Mapping[str, Any]] = ()
    """Values after each stored step of this turn, in order."""


class GraphThread:
    """LangGraph thread of one turn; empty for a graph without a checkpointer."""

    def __init__(self, graph: Graph, config: RunnableConfig, *, durable: bool) -> None:
        self._graph, self._config, self._durable = graph, config, durable

    async def state(self) -> StateSnapshot | None:
        """Return the current state including subgraphs, None without a checkpointer."""
        return await self._graph.aget_state(self._config, subgraphs=True) if self._durable else None

    def is_of_turn(self, state: StateSnapshot | None) -> bool:
        """Return True if this turn wrote the state, and so has begun."""
        return state is not None and (state.metadata or {}).get("run_id") == self._config["metadata"]["run_id"]

    async def pending_interrupts(self, state: StateSnapshot | None, *, may_be_torn: bool) -> list[Interrupt]:
        """Return the pending interrupts, those of the innermost graphs first-hand.

        LangGraph stores a subgraph's interrupt before that of its parent node. A turn cut in between, or drained within
        the subgraph, leaves the parent node with an answered interrupt, and LangGraph would use that answer for the
        next one. `may_be_torn` says that the turn may have been cut; then this method also searches graphs invisible to
        LangGraph, such as a graph called by a tool.
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
        """Return True if any work is pending in the thread, of this graph or another."""
        saver = self._graph.checkpointer
        found = await saver.aget_tuple(self._config) if isinstance(saver, BaseCheckpointSaver) else None
        values = found.checkpoint["channel_values"] if found is not None else {}
        return any(value or channel.startswith(_TRIGGERS) for channel, value in values.items() if _is_pending(channel))

    async def history(self, state: StateSnapshot | None, answered: Collection[str]) -> StateHistory:
        """Return the values before the turn and after its steps; `answered` are the ids of the answered interrupts."""
        if state is None or not self.is_of_turn(state):
            # Read by the checkpoint: the start of the interrupted step, together with the results of that step.
            start = await self._graph.aget_state(state.config) if state is not None and answered else state
            return StateHistory(finished_values(start, answered) if start is not None else {})
        since: list[Mapping[str, Any]] = []
        async for snapshot in self._graph.aget_state_history(self._config):
            if not self.is_of_turn(snapshot):
                return StateHistory(finished_values(snapshot, answered), since[::-1])
            since.append(values_of(snapshot))
        return StateHistory({}, since[::-1])

    async def store_sent(self, sent: Sequence[Message]) -> None:
        """Add the sent messages to the state as AIMessages with the same ids.

        The client has its answer, so a failure is only logged.
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
                # A channel without a reducer holds the last write only, so the existing messages are written again.
                whole = isinstance(self._graph.channels[MESSAGES], LastValue)
                await self._write(missing if not whole else [*value, *missing])
        except (LeaseLost, StoreError):
            raise
        except Exception:
            logger.exception(
                "The sent messages could not be added to the state; the conversation continues without them."
            )

    async def _write(self, messages: Sequence[BaseMessage]) -> None:
        node = PregelNode(channels=[], triggers=[], writers=[ChannelWrite([ChannelWriteEntry(MESSAGES)])])
        graph = self._graph.copy(update={"nodes": {**self._graph.nodes, SENT_NODE: node}})
        await graph.aupdate_state(self._config, messages, as_node=SENT_NODE)


def values_of(state: StateSnapshot | None) -> Mapping[str, Any]:
    """Return a state's values by channel; empty for a functional graph."""
    values = state.values if state is not None else None
    return values if isinstance(values, dict) else {}


def messages_of(values: Any) -> list[BaseMessage]:
    """Return the messages among the values."""
    return as_messages(values.get(MESSAGES)) if isinstance(values, Mapping) else []


def as_messages(value: Any) -> list[BaseMessage]:
    """Return the messages in a value, in any form accepted by LangChain; skip everything else."""
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
    """Return the values of the interrupted step, with the results of its finished nodes.

    A node with one of the `answered` interrupts was not finished at that time.
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
    """Return the turn's input for the channels of the graph's state; a functional graph gets all of it.

    `messages` has one HumanMessage if the message has text: the text parts in order, with the messageId as its id, so
    that a repeat adds nothing. `a2a_inbox` is the envelope. `a2a_outbox` is empty: an earlier outbox belongs to its own
    turn.

    `before` are the messages in the state. Tool calls left open by a failed or cut turn are answered first, since no
    model accepts a conversation with open calls.
    """
    text = text_of(request)
    human = [HumanMessage(content=text, id=request.message.message_id)] if text else []
    given = {
        MESSAGES: [*cancelled_tool_calls(before), *human],
        INBOX: inbox_of(request),
        OUTBOX: None,
    }
    if not isinstance(graph, CompiledStateGraph):
        # A functional graph has no state: its entrypoint gets the whole input.
        return {MESSAGES: given[MESSAGES], INBOX: given[INBOX]}
    return {channel: value for channel, value in given.items() if channel in graph.channels}


def with_envelopes(graph: Graph) -> Graph:
    """Return the graph with its input also written to `a2a_inbox` and `a2a_outbox`.

    LangGraph's START writes the channels of the input schema only. The envelopes missing from it are written beside it.
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

    # Before the other writers: a conditional edge at START may read the envelopes.
    writers = [ChannelWrite((ChannelWriteTupleEntry(mapper=envelopes),)), *graph.nodes[START].writers]
    return graph.copy(update={"nodes": {**graph.nodes, START: graph.nodes[START].copy({"writers": writers})}})


def clears_outbox(graph: Graph) -> bool:
    """Return True if the input empties the outbox of an earlier turn; a reducer may not let it through."""
    return isinstance(graph.channels.get(OUTBOX), LastValue)


def cancelled_tool_calls(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return a "canceled" tool message for each tool call without a result."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return [
        ToolMessage("canceled", tool_call_id=call["id"], name=call["name"], status="error")
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] and call["id"] not in answered
    ]
