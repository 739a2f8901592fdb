"""LangGraph thread of a turn: its config, its stored state, and the messages that are added to it."""

import copy
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import TASKS
from langgraph.channels import LastValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START
from langgraph.pregel._read import PregelNode
from langgraph.pregel._task_status import read_task_statuses
from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry
from langgraph.types import Interrupt, Send, StateSnapshot

from aion_core.agents.langgraph.added_messages import SENT
from aion_core.agents.langgraph.graph import MESSAGES, Graph
from aion_core.agents.langgraph.state import StateHistory, finished_values, messages_of, values_of
from aion_core.errors import LeaseLost, StoreError
from aion_core.protocol.types import Message
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.table.keys import ContextKey, thread_id

logger = logging.getLogger(__name__)


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

SENT_NODE = "aion:sent"
"""Name of a temporary node under which sent messages are written to the state. The node triggers no other node."""

RUNS_FROM_HERE = "aion:runs_from_here"
"""Key in the metadata of a checkpoint copied from another thread, for the id of the message that runs its next nodes."""

_TRIGGERS = "branch:to:"
"""Prefix of the channels that name the next node."""


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

    def is_run_by(self, state: StateSnapshot, message_id: str) -> bool:
        """Return True if the state was copied for this message, which runs its next nodes and is no input."""
        return bool(message_id) and (state.metadata or {}).get(RUNS_FROM_HERE) == message_id

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

    async def pending_work(self) -> frozenset[str] | None:
        """Return the nodes to run next by the thread's last checkpoint, of this graph or an earlier version of it.

        The result may lack nodes that wait for several others. It is None if the checkpoint has no pending work.
        """
        saver = self._graph.checkpointer
        found = await saver.aget_tuple(self._config) if isinstance(saver, BaseCheckpointSaver) else None
        values = found.checkpoint["channel_values"] if found is not None else {}
        pending = {
            channel: value
            for channel, value in values.items()
            if _is_pending(channel) and (value or channel.startswith(_TRIGGERS))
        }
        if not pending:
            return None
        sends = [send.node for send in pending.get(TASKS, ()) if isinstance(send, Send)]
        return frozenset([*sends, *(channel.removeprefix(_TRIGGERS) for channel in pending)])

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


def _is_pending(channel: str) -> bool:
    return channel in (START, TASKS) or channel.startswith((_TRIGGERS, "join:"))


def _ai_message(message: Message) -> AIMessage:
    text = "".join(part.text for part in message.parts if part.WhichOneof("content") == "text")
    return AIMessage(text, id=message.message_id, response_metadata={SENT: True})
