"""LangGraph thread of a turn: the graph's input, its stored state, and its output that the state lacks."""

import copy
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import TASKS
from langgraph.channels import DeltaChannel, LastValue
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, empty_checkpoint
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.pregel._read import PregelNode
from langgraph.pregel._task_status import read_task_statuses
from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry
from langgraph.types import Command, Interrupt, StateSnapshot
from msgspec import Struct

from aion_core.agents.inbound import inbox_of
from aion_core.agents.langgraph.content import (
    INBOX,
    MESSAGES,
    OUTBOX,
    ROOT,
    Graph,
    content_of,
    has_single_value,
    sent_data,
)
from aion_core.engine.agent import TurnRequest
from aion_core.errors import LeaseLost, StoreError
from aion_core.protocol.types import Message, to_json, utf8
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.table.keys import ContextKey, thread_id

logger = logging.getLogger(__name__)

STRUCTURED = "structured_response"
"""Key of the state for the structured output of LangChain's prebuilt agents."""


# ── Nodes of the graph ────────────────────────────────────────────────────────────────────────────────────────────────

NODES = "aion:nodes"
"""Key in a checkpoint's metadata for the node names of the graph that wrote it."""

REDEPLOYED = "The agent was deployed with other nodes during this turn. Send the first message again with a new id."
REFUSES_EARLIER_ANSWER = (
    "The agent was deployed with another schema for an earlier question, and the answer to that question does not fit it. "
    "Send the first message again with a new id."
)


def node_names(graph: Graph) -> str:
    """Return the node names of the graph and its subgraphs, as sorted lines of text."""
    return "\n".join(sorted(_names(graph)))


def missing_nodes(nodes: str, metadata: Mapping[str, Any] | None) -> list[str]:
    """Return the nodes that a checkpoint's metadata names, and that a graph with the nodes `nodes` lacks.

    If a node to run next were missing in the deployed graph, LangGraph would silently end the resumed run.
    """
    written_by = (metadata or {}).get(NODES, "")
    return sorted(set(written_by.split("\n")) - {"", *nodes.split("\n")})


def needs_no_input_checkpoint(graph: Graph) -> bool:
    """Return True if the graph can resume from the checkpoint after the input.

    It cannot if a conditional edge chooses the first node by the input, or if a DeltaChannel is rebuilt from the writes
    of all earlier checkpoints.
    """
    if not isinstance(graph, CompiledStateGraph) or START in graph.builder.branches:
        return False
    return not any(isinstance(channel, DeltaChannel) for channel in graph.channels.values())


def _names(graph: Graph) -> Iterator[str]:
    yield from graph.nodes
    for namespace, nested in graph.get_subgraphs(recurse=True):
        if isinstance(nested, Pregel):  # skip a RemoteGraph, because it is deployed separately
            yield from (f"{namespace}|{name}" for name in nested.nodes)


def last_name(path: Sequence[str]) -> str:
    """Return the name of the last node in a namespace.

    If a node calls its subgraph repeatedly, a counter follows the node's name in the namespace.
    """
    return next((part.partition(":")[0] for part in reversed(path) if ":" in part), path[-1] if path else "")


# ── Output that no state holds ────────────────────────────────────────────────────────────────────────────────────────

STREAMED_NAMESPACE = "aion:streamed"
"""Checkpoint namespace (`checkpoint_ns`) in the thread for a turn's streamed text. The graph does not see it."""


class UnreturnedOutput:
    """Output of a turn that the graph's state lacks: streamed text, and structured responses of subgraphs.

    The last streamed text that no node has returned, and the last structured response, are stored. Otherwise they would
    be lost with the process, because a finished node does not run again.
    """

    def __init__(
        self, saver: Callable[[], BaseCheckpointSaver[Any]] | None, config: RunnableConfig, *, returns: bool
    ) -> None:
        """Start without output. `returns` is True if the graph's state has a key for messages.

        The first use calls `saver` to get the checkpointer. If `saver` is None, nothing is stored.
        """
        self._make_saver, self._returns = saver, returns
        self._turn = config["metadata"]["run_id"]
        place = {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": STREAMED_NAMESPACE}
        self._config: RunnableConfig = {"configurable": place, "metadata": {"run_id": self._turn}}
        self._streaming: set[UUID] = set()
        self.calls: set[str] = set()
        """Message ids of the complete model calls of this process."""
        self.failed: set[str] = set()
        """Message ids of the model calls of failed attempts of nodes."""
        self._unreturned: dict[str, str] = {}
        self.structured: Any = None
        """Last structured response of a subgraph as JSON, also from an earlier process; None without one."""
        self._stored = ("", None)

    @cached_property
    def _saver(self) -> BaseCheckpointSaver[Any] | None:
        return self._make_saver() if self._make_saver is not None else None

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        return empty_checkpoint()

    def start(self, call: UUID) -> None:
        """Mark this model call as streaming to the client."""
        self._streaming.add(call)

    def complete(self, call: UUID, message: BaseMessage) -> None:
        """Add the complete message of a model call. Store its text if it was streamed."""
        self.calls.add(message.id or "")
        if call in self._streaming:
            self._streaming.discard(call)
            if message.text:
                self._unreturned[message.id or str(call)] = str(message.text)

    def discard(self, calls: Collection[str]) -> None:
        """Remove the messages of a node's failed attempt, because the node may run again."""
        self.failed.update(calls)
        for call in calls:
            self._unreturned.pop(call, None)

    def add_emitted(self, call: str, text: str) -> None:
        """Append a text chunk emitted by the author's code to the text of its message. `call` is the message's id."""
        self._unreturned[call] = self._unreturned.get(call, "") + text

    def remove_returned(self, output: Any) -> None:
        """Remove the messages in a node's return value, because the graph's state stores these messages."""
        if self._returns and self._unreturned:
            for message in _messages_in(output):
                self._unreturned.pop(message.id or "", None)

    def add_structured(self, output: Any) -> None:
        """Record the structured response in the return value of a subgraph's node, if it has one."""
        for written in updates_in(output):
            if (part := sent_data(written.get(STRUCTURED))) is not None:
                self.structured = to_json(part)["data"]

    async def store(self) -> None:
        """Store the last unreturned text and the last structured response, unless they are stored already."""
        output = utf8(next(reversed(self._unreturned.values()), "")), self.structured
        if output != self._stored and self._saver is not None:
            metadata: Any = {"source": "update", "step": 0, "parents": {}, "text": output[0]}
            if self.structured is not None:
                metadata["structured"] = json.dumps(self.structured)
            await self._saver.aput(self._config, self._checkpoint, metadata, {})
            self._stored = output

    async def load_earlier(self) -> str:
        """Load the structured response stored by an earlier process of this turn. Return that process's text, or ""."""
        found = await self._saver.aget_tuple(self._config) if self._saver is not None else None
        metadata: Mapping[str, Any] | CheckpointMetadata = found.metadata if found is not None else {}
        if metadata.get("run_id") != self._turn:
            return ""
        self.structured = json.loads(str(metadata.get("structured", "null")))
        return str(metadata.get("text", ""))


def updates_in(output: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings in a node's return value that LangGraph writes to the state."""
    for each in output if isinstance(output, list | tuple) else [output]:
        written = each.update if isinstance(each, Command) else each
        if isinstance(written, dict | Mapping):
            yield written


def _messages_in(output: Any) -> Iterator[BaseMessage]:
    if isinstance(output, BaseMessage):
        yield output
    elif isinstance(output, Command):
        yield from _messages_in(output.update)
    elif isinstance(output, dict | Mapping):
        for value in output.values():
            yield from _messages_in(value)
    elif isinstance(output, list | tuple):
        for value in output:
            if isinstance(value, BaseMessage | Command):
                yield from _messages_in(value)


# ── Configuration ─────────────────────────────────────────────────────────────────────────────────────────────────────


def config_of(
    context: ContextKey, turn_id: str, configuration: Mapping[str, Any], recursion_limit: int | None
) -> RunnableConfig:
    """Return LangGraph's config for a turn: its `configurable` has the author's settings, without reserved keys.

    `recursion_limit` is the maximum number of steps. None means the graph's own limit.
    """
    own = {key: value for key, value in configuration.items() if key not in _RESERVED_KEYS and not key.startswith("__")}
    limit: RunnableConfig = {"recursion_limit": recursion_limit} if recursion_limit is not None else {}
    return {
        **limit,
        "configurable": {**copy.deepcopy(own), "thread_id": thread_id(context)},
        # LangGraph resumes the run of the newest checkpoint if that checkpoint has this run_id. So the same call starts
        # a turn, resumes the turn, or does nothing after the turn's end. See
        # tests/runtime/unit/agents/langgraph/test_langgraph_assumptions.py.
        "metadata": {"run_id": turn_id},
    }


_RESERVED_KEYS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"})
"""Configurable keys that LangGraph uses to find its state. Keys with two leading underscores are reserved too."""


# ── Thread ────────────────────────────────────────────────────────────────────────────────────────────────────────────

SENT_NODE = "aion:sent"
"""Name of a temporary node under which sent messages are written to the state. The node triggers no other node."""
_TRIGGERS = "branch:to:"
"""Prefix of the channels that name the next node."""


class StateHistory(Struct, frozen=True):
    """Values of a graph's state before a turn, and after each stored step of the turn."""

    before: Mapping[str, Any]
    """Values of the state at the start of the turn."""
    since: Sequence[Mapping[str, Any]] = ()
    """Values of the state after each stored step of the turn, in order."""


class GraphThread:
    """Access to the LangGraph thread of one turn. Without a checkpointer, the thread has no state."""

    def __init__(self, graph: Graph, config: RunnableConfig, *, durable: bool) -> None:
        self._graph, self._config, self._durable = graph, config, durable

    async def state(self) -> StateSnapshot | None:
        """Return the current state of the graph and its subgraphs; None without a checkpointer or a stored state."""
        saver = self._graph.checkpointer
        if isinstance(saver, TableSaver) and await saver.is_empty(self._config):
            return None
        return await self._graph.aget_state(self._config, subgraphs=True) if self._durable else None

    async def renew(self) -> None:
        """Renew the stored state of an open question, because this turn has extended the task but stored no state."""
        if isinstance(self._graph.checkpointer, TableSaver):
            await self._graph.checkpointer.renew(self._config)

    def is_of_turn(self, state: StateSnapshot | None) -> bool:
        """Return True if this turn, not an earlier one, has written the state."""
        return state is not None and (state.metadata or {}).get("run_id") == self._config["metadata"]["run_id"]

    async def pending_interrupts(self, state: StateSnapshot | None, *, may_be_torn: bool) -> list[Interrupt]:
        """Return the pending interrupts of a state, read from the innermost graphs.

        LangGraph stores a subgraph's interrupt before its parent node's interrupt. If the turn is lost or drained
        between these two writes, the parent node still has its earlier interrupt, and LangGraph would use the answer to
        that interrupt for the subgraph's new one. With `may_be_torn`, also read the stored interrupts of graphs that
        LangGraph does not list as subgraphs, such as a graph called by a tool.
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
        """Return True if the thread's last checkpoint has pending work of this graph or an earlier version of it."""
        saver = self._graph.checkpointer
        found = await saver.aget_tuple(self._config) if isinstance(saver, BaseCheckpointSaver) else None
        values = found.checkpoint["channel_values"] if found is not None else {}
        return any(value or channel.startswith(_TRIGGERS) for channel, value in values.items() if _is_pending(channel))

    async def history(self, state: StateSnapshot | None, answered: Collection[str]) -> StateHistory:
        """Return the state's values before the turn and after its steps. `answered` has ids of answered interrupts."""
        if state is None or not self.is_of_turn(state):
            # Read the state again by its checkpoint id: only then does LangGraph return the values at the start of the
            # interrupted step and the results of that step separately.
            start = await self._graph.aget_state(state.config) if state is not None and answered else state
            return StateHistory(finished_values(start, answered) if start is not None else {})
        since: list[Mapping[str, Any]] = []
        async for snapshot in self._graph.aget_state_history(self._config):
            if not self.is_of_turn(snapshot):
                return StateHistory(finished_values(snapshot, answered), since[::-1])
            since.append(values_of(snapshot))
        return StateHistory({}, since[::-1])

    async def store_sent(self, sent: Sequence[Message]) -> None:
        """Add the messages sent to the client to the graph's state, as AIMessages with the same ids.

        Only log a failure, because the client already has its answer.
        """
        if not sent or not self._durable or MESSAGES not in self._graph.channels:
            return
        try:
            state = await self._graph.aget_state(self._config)
            values = values_of(state)
            value = values.get(MESSAGES) or []
            known = {message.id for message in messages_of(values)}
            missing = [_ai_message(message) for message in sent if message.message_id not in known]
            if missing:
                # Write the existing messages too, because a channel without a reducer replaces its value by each write.
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
    """Return the values of a state by channel; empty for a functional graph."""
    values = state.values if state is not None else None
    return values if isinstance(values, dict) else {}


def messages_of(values: Any) -> list[BaseMessage]:
    """Return the messages in the values of a state."""
    return as_messages(values.get(MESSAGES)) if isinstance(values, (dict, Mapping)) else []


def as_messages(value: Any) -> list[BaseMessage]:
    """Convert a value to LangChain messages, from any form that LangChain accepts. Skip other values."""
    if isinstance(value, BaseMessage):
        return [value]
    if not isinstance(value, list) and (not isinstance(value, Sequence) or isinstance(value, str)):
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
    """Return the state's values at an interrupted step, including the messages of finished nodes.

    `answered` has the ids of the answered interrupts. A node with one of them had not finished at that step.
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


def turn_input(graph: Graph, request: TurnRequest, before: Sequence[BaseMessage] = ()) -> Any:
    """Return the turn's input: a dict for the channels of the graph's state, or a list for a state that is a list.

    `messages` has a HumanMessage with the text of the turn's message, and its files and data unless the graph reads
    them from `a2a_inbox`. The id of the HumanMessage is the messageId, so that a repeated turn does not add the message
    twice. `a2a_inbox` is the turn's A2AInbox. `a2a_outbox` is None, which clears the outbox of an earlier turn.
    `before` has the messages in the state. If a failed or lost turn has left tool calls without a result, the input
    begins with results "canceled", because models reject a conversation with such calls.
    """
    content: Any = content_of(request.message.parts, files=INBOX not in graph.channels)
    message_id = request.message.message_id
    if any(message.id == message_id and not isinstance(message, HumanMessage) for message in before):
        # Use another id: a reducer such as `add_messages` would replace the agent's message by the client's.
        message_id = f"client-{message_id}"
    human = [HumanMessage(content=content, id=message_id)] if content else []
    if has_single_value(graph):
        # The input replaces a state without a reducer. A reducer is that of a list, such as `add_messages`.
        return {MESSAGES: human, INBOX: inbox_of(request)} if isinstance(graph.channels[ROOT], LastValue) else human
    given: dict[str, Any] = {MESSAGES: [*cancelled_tool_calls(before), *human]}
    if not isinstance(graph, CompiledStateGraph):
        # Pass the message and the inbox as input, because a functional graph has no state.
        return {**given, INBOX: inbox_of(request)}
    if INBOX in graph.channels:
        given[INBOX] = inbox_of(request)
    return {channel: value for channel, value in {**given, OUTBOX: None}.items() if channel in graph.channels}


def clears_outbox(graph: Graph) -> bool:
    """Return True if the turn's input clears the outbox of an earlier turn. A reducer may prevent this."""
    return isinstance(graph.channels.get(OUTBOX), LastValue)


def cancelled_tool_calls(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return a tool message "canceled" for each tool call in the messages that has no result."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return [
        ToolMessage("canceled", tool_call_id=call["id"], name=call["name"], status="error")
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] and call["id"] not in answered
    ]
