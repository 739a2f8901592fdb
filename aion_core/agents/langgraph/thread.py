"""A turn's thread, as LangGraph's persistence has it: what it held before the turn, and what it has to hold after it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import LastValue
from langgraph.pregel import Pregel
from langgraph.pregel._read import PregelNode
from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry
from langgraph.types import StateSnapshot

from aion_core.errors import LeaseLost, StoreError
from aion_core.protocol.types import Message

logger = logging.getLogger(__name__)

Graph = Pregel[Any, Any, Any, Any]

MESSAGES = "messages"
SENT = "aion:sent"
"""The node that what was sent is written as; it triggers nothing, and no edge of the author's follows from it."""


class Thread:
    """The thread of one turn; of a graph without a checkpointer, empty."""

    def __init__(self, graph: Graph, config: RunnableConfig, *, durable: bool) -> None:
        self._graph, self._config, self._durable = graph, config, durable

    async def state(self) -> StateSnapshot | None:
        """Return the state as it is now, None where none is kept."""
        return await self._graph.aget_state(self._config) if self._durable else None

    async def before(self, state: StateSnapshot | None) -> Mapping[str, Any]:
        """Return the values as the turn found them: of the newest checkpoint that another turn has written."""
        turn = self._config["metadata"]["run_id"]
        if state is None or (state.metadata or {}).get("run_id") != turn:
            return values_of(state)
        async for snapshot in self._graph.aget_state_history(self._config):
            if (snapshot.metadata or {}).get("run_id") != turn:
                return values_of(snapshot)
        return {}

    async def keep(self, sent: Sequence[Message]) -> None:
        """See to it that the state holds what was sent, as AIMessages of the messages' ids (R79).

        The client has, or will have, its answer: where this cannot be done it is logged, and no more.
        """
        if not self._durable or MESSAGES not in self._graph.channels:
            return
        try:
            state = await self._graph.aget_state(self._config)
            held = values_of(state).get(MESSAGES) or []
            known = {message.id for message in held if isinstance(message, BaseMessage)}
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


def messages_of(values: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the LangChain messages among the values."""
    return [message for message in values.get(MESSAGES) or () if isinstance(message, BaseMessage)]


def _ai_message(message: Message) -> AIMessage:
    text = "".join(part.text for part in message.parts if part.WhichOneof("content") == "text")
    return AIMessage(text, id=message.message_id)
