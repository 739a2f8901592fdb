"""A turn's thread, as LangGraph's persistence has it: what it held before the turn, and what it has to hold after it."""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import TASKS
from langgraph.channels import LastValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START
from langgraph.pregel._read import PregelNode
from langgraph.pregel._task_status import read_task_statuses
from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry
from langgraph.types import Interrupt, StateSnapshot

from aion_core.agents.langgraph.graph import MESSAGES, Graph
from aion_core.errors import LeaseLost, StoreError
from aion_core.protocol.types import Message

logger = logging.getLogger(__name__)

SENT = "aion:sent"
"""The node that what was sent is written as; it triggers nothing, and no edge of the author's follows from it."""
_TRIGGERS = "branch:to:"
"""What the channels begin with that say which node runs next."""


@dataclass(frozen=True, slots=True)
class Past:
    """What the thread has seen before this process took the turn up."""

    before: Mapping[str, Any]
    """The state's values as the turn found them."""
    since: Sequence[Mapping[str, Any]] = ()
    """The values after each step that the turn has made so far, in order."""


class Thread:
    """The thread of one turn; of a graph without a checkpointer, empty."""

    def __init__(self, graph: Graph, config: RunnableConfig, *, durable: bool) -> None:
        self._graph, self._config, self._durable = graph, config, durable

    async def state(self) -> StateSnapshot | None:
        """Return the state as it is now, None where none is kept; of what is unfinished, the subgraphs' too."""
        return await self._graph.aget_state(self._config, subgraphs=True) if self._durable else None

    def is_of_turn(self, state: StateSnapshot | None) -> bool:
        """Tell whether the turn has written the state, and so has begun."""
        return state is not None and (state.metadata or {}).get("run_id") == self._config["metadata"]["run_id"]

    async def questions(self, state: StateSnapshot | None, *, torn: bool) -> list[Interrupt]:
        """Return what is asked, as the innermost graphs know it.

        A subgraph's question is stored with the subgraph, then with the node that the subgraph is. A turn that is cut in
        between, or drained within the subgraph, leaves the node with a question that has been answered, whose answer
        LangGraph would take for the next. `torn`: the turn may have been cut; then graphs are looked for that LangGraph
        does not see, such as one that a tool calls.
        """
        if state is None:
            return []
        asked: list[Interrupt] = []
        within = state.config["configurable"].get("checkpoint_ns", "")
        for task in state.tasks:
            if isinstance(task.state, StateSnapshot) and task.state.tasks:
                asked += await self.questions(task.state, torn=torn)
            elif torn and task.interrupts:
                task_ns = f"{task.name}:{task.id}"
                asked += await self._asked_within(f"{within}|{task_ns}" if within else task_ns) or task.interrupts
            else:
                asked += task.interrupts
        return asked

    async def _asked_within(self, namespace: str) -> list[Interrupt]:
        saver, place = self._graph.checkpointer, {**self._config["configurable"], "checkpoint_ns": namespace}
        if not isinstance(saver, BaseCheckpointSaver):
            return []
        found = await saver.aget_tuple({"configurable": place})
        statuses = read_task_statuses((found.pending_writes or ()) if found is not None else ())
        return [interrupt for status in statuses.values() for interrupt in status.pending_interrupts]

    async def has_work(self) -> bool:
        """Tell whether something is left to do, whatever graph has left it."""
        saver = self._graph.checkpointer
        found = await saver.aget_tuple(self._config) if isinstance(saver, BaseCheckpointSaver) else None
        values = found.checkpoint["channel_values"] if found is not None else {}
        return any(value or channel.startswith(_TRIGGERS) for channel, value in values.items() if _is_work(channel))

    async def past(self, state: StateSnapshot | None, asked: Collection[str]) -> Past:
        """Return what the turn has found, and made so far; `asked` are the ids of the questions it answers one of."""
        if state is None or not self.is_of_turn(state):
            # By its checkpoint: as of the start of the step in which it was asked, that step's results beside it.
            began = await self._graph.aget_state(state.config) if state is not None and asked else state
            return Past(with_finished(began, asked) if began is not None else {})
        since: list[Mapping[str, Any]] = []
        async for snapshot in self._graph.aget_state_history(self._config):
            if not self.is_of_turn(snapshot):
                return Past(with_finished(snapshot, asked), since[::-1])
            since.append(values_of(snapshot))
        return Past({}, since[::-1])

    async def keep(self, sent: Sequence[Message]) -> None:
        """See to it that the state holds what was sent, as AIMessages of the messages' ids (R79).

        The client has, or will have, its answer: where this cannot be done it is logged, and no more.
        """
        if not self._durable or MESSAGES not in self._graph.channels:
            return
        try:
            state = await self._graph.aget_state(self._config)
            values = values_of(state)
            held = values.get(MESSAGES) or []
            known = {message.id for message in messages_of(values)}
            missing = [_ai_message(message) for message in sent if message.message_id not in known]
            if missing:
                # A channel without a reducer holds what is written last: the messages that are there come along.
                whole = isinstance(self._graph.channels[MESSAGES], LastValue)
                await self._written(missing if not whole else [*held, *missing])
        except (LeaseLost, StoreError):
            raise
        except Exception:
            logger.exception("The state does not take what was sent; the conversation goes on without it.")

    async def _written(self, messages: Sequence[BaseMessage]) -> None:
        node = PregelNode(channels=[], triggers=[], writers=[ChannelWrite([ChannelWriteEntry(MESSAGES)])])
        graph = self._graph.copy(update={"nodes": {**self._graph.nodes, SENT: node}})
        await graph.aupdate_state(self._config, messages, as_node=SENT)


def values_of(state: StateSnapshot | None) -> Mapping[str, Any]:
    """Return a state's values by their channels; of a functional graph, none."""
    values = state.values if state is not None else None
    return values if isinstance(values, dict) else {}


def messages_of(values: Any) -> list[BaseMessage]:
    """Return the messages among the values."""
    return as_messages(values.get(MESSAGES)) if isinstance(values, Mapping) else []


def as_messages(held: Any) -> list[BaseMessage]:
    """Return the messages that are held, in whichever form LangChain takes them; what is none is left out."""
    if isinstance(held, BaseMessage):
        return [held]
    if not isinstance(held, Sequence) or isinstance(held, str):
        return []
    messages: list[BaseMessage] = []
    for message in held:
        if isinstance(message, BaseMessage):
            messages.append(message)
        elif isinstance(message, dict | tuple):
            with suppress(ValueError, TypeError, KeyError, NotImplementedError):
                messages += convert_to_messages([message])
    return messages


def with_finished(snapshot: StateSnapshot, asked: Collection[str]) -> Mapping[str, Any]:
    """Return the values of the step at which the turn took an answer, with what had ended by then in that step.

    A node whose question was still open, one of `asked`, has ended since, if it has.
    """
    values = values_of(snapshot)
    ended = [
        message
        for task in snapshot.tasks
        if isinstance(task.result, dict) and not any(interrupt.id in asked for interrupt in task.interrupts)
        for message in messages_of(task.result)
    ]
    return {**values, MESSAGES: [*messages_of(values), *ended]} if asked and ended else values


def _is_work(channel: str) -> bool:
    return channel in (START, TASKS) or channel.startswith((_TRIGGERS, "join:"))


def _ai_message(message: Message) -> AIMessage:
    text = "".join(part.text for part in message.parts if part.WhichOneof("content") == "text")
    return AIMessage(text, id=message.message_id)
