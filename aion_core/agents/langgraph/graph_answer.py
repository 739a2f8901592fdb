"""Answers of a turn in a graph's messages, or in the return value of a functional graph.

`aion_core.agents.final_answer` decides if one of them is the turn's answer.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph.state import CompiledStateGraph

from aion_core.agents.langgraph.added_messages import AddedMessages, last_complete, trailing_results
from aion_core.agents.langgraph.graph import INBOX, MESSAGES, OUTBOX, STRUCTURED, Graph, has_single_value, tools_of
from aion_core.agents.langgraph.parts import ai_messages, content_parts, data_part, has_content, message_of
from aion_core.agents.langgraph.state import StateHistory, as_messages, client_id, messages_of
from aion_core.agents.langgraph.written_values import Writes, WrittenValues
from aion_core.errors import AgentFailed
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)

NO_ANSWER = (
    "The turn has no answer for its client. Let a node return an AIMessage with text in `messages`, or call "
    "`thread.reply`, or return the result in a state without `messages` or by an `output_schema`; an @entrypoint returns it."
)


class GraphAnswer:
    """Possible answers of a turn, taken from a graph's state or from the return value of a functional graph."""

    def __init__(self, graph: Graph, history: StateHistory) -> None:
        """Exclude the messages of the state before the turn, because they cannot be the turn's answer."""
        self._has_single_value = has_single_value(graph)
        self.is_functional = not isinstance(graph, CompiledStateGraph) or self._has_single_value
        """True for an `@entrypoint` and for a state without keys: the return value of the graph is its answer."""
        self._direct_tools = frozenset(_direct_tools(graph))
        self._graph = graph
        self._cached: list[BaseMessage] = []
        """Messages of nodes with a `cache_policy` that did not run. The state may have them from an earlier turn."""
        before = messages_of(history.before)
        self._ids_before = {message.id for message in before if message.id}
        self.added = AddedMessages(before)
        self.values = WrittenValues(graph, history, functional=self.is_functional)
        self._has_unsent = False

    @property
    def has_unsent(self) -> bool:
        """True if the turn has data that cannot be sent. The log says why."""
        return self._has_unsent or self.values.has_unsent

    def observe_writes(self, writes: Writes, *, may_be_cached: bool) -> None:
        """Record what the nodes of the main graph have written. `may_be_cached` is LangGraph's mark of a cached result."""
        self.values.observe_writes(writes)
        for node, values in writes if may_be_cached else ():
            # Check that a cache policy exists, because LangGraph marks a node's result as cached also if it only reuses
            # the result after an interrupt of another node in the same step.
            if self._graph.cache_policy or self._graph.nodes[node].cache_policy:
                self._cached += messages_of(values)

    def returned(self, values: Any, received: str) -> Message | None:
        """Return the answer in the final values: a structured response, direct tool results, or an AIMessage.

        What follows the tool calls of the last AIMessage is the answer rather than its text, which only introduces the
        calls. The answer of a functional graph is its return value, as text, message or data. `received` is the id of the
        client's message.
        """
        if self.is_functional:
            return self._value(values)
        messages = messages_of(values)
        answer = self.added.answer(messages)
        structured = self._data(values.get(STRUCTURED)) if self.values.is_new(values, STRUCTURED) else None
        if structured is not None:
            answer = answer or Message(role=Role.ROLE_AGENT)
            answer.parts.append(structured)
        elif self._direct_tools and (results := self.added.direct_results(messages, self._direct_tools)):
            answer = _of_results(results) or answer
        elif answer is not None and self.added.go_on_after_calls(messages):
            answer = self.tool_results(values) or self.as_human(values, received) or answer
        return answer

    def tool_results(self, values: Any) -> Message | None:
        """Return the results of tools at the end of the messages, for a turn without an AIMessage as its answer."""
        return _of_results(self.added.last_results(messages_of(values))) if not self.is_functional else None

    def as_human(self, values: Any, received: str) -> Message | None:
        """Return the last message if a node has added it as a HumanMessage, for a turn without any text of its own.

        The workers of a supervisor often report so. `received` is the id of the client's message.
        """
        last = messages_of(values)[-1:] if not self.is_functional else []
        if not last or not isinstance(last[0], HumanMessage) or last[0].id in {None, *self._ids_before}:
            return None
        parts = list(content_parts(last[0])) if last[0].id not in (received, client_id(received)) else []
        return Message(role=Role.ROLE_AGENT, parts=parts) if parts else None

    def returned_before(self, values: Any) -> list[AIMessage]:
        """Return the AIMessages in a functional graph's return value that the client receives before the answer.

        These are the AIMessages directly before the answer, and the AIMessages with tool calls since the client's
        message.
        """
        if not self.is_functional:
            return []
        messages = messages_of(values) if isinstance(values, Mapping) else as_messages(values)
        last = list(takewhile(lambda message: isinstance(message, AIMessage), reversed(messages)))
        turn = takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages))
        answer = next((message for message in ai_messages(messages) if has_content(message)), None)
        before = [
            message
            for number, message in enumerate(turn)
            if isinstance(message, AIMessage)
            and has_content(message)
            and message is not answer
            and (message.tool_calls or 0 < number < len(last))
        ]
        return before[::-1]

    def cached(self) -> Message | None:
        """Return a cached node's message as the answer, without its id, if the turn has added no message."""
        last = last_complete([message for message in self._cached if isinstance(message, AIMessage)])
        return message_of(last.model_copy(update={"id": None})) if last is not None else None

    def _value(self, value: Any) -> Message | None:
        """Convert an `@entrypoint`'s return value to its answer: a text, an AIMessage, or any other value as data."""
        if isinstance(value, str):
            return Message(role=Role.ROLE_AGENT, parts=[Part(text=utf8(value))]) if value else None
        messages = messages_of(value) if isinstance(value, Mapping) else as_messages(value)
        # The value of a state without keys may also have messages of earlier turns, before the client's message.
        turn = takewhile(lambda each: not (self._has_single_value and isinstance(each, HumanMessage)), messages[::-1])
        last = next((each for each in turn if isinstance(each, AIMessage) and has_content(each)), None)
        results = _of_results(trailing_results(messages)) if last is None or last.tool_calls else None
        if answer := results or (message_of(last) if last is not None else None):
            return answer
        if messages:
            envelope = (MESSAGES, INBOX, OUTBOX)
            value = (
                {key: item for key, item in value.items() if key not in envelope}
                if isinstance(value, Mapping)
                else None
            )
        part = self._data(value)
        return Message(role=Role.ROLE_AGENT, parts=[part]) if part is not None else None

    def structured(self, value: Any) -> Part | None:
        """Return the structured response of a subgraph as data; None for a functional graph, which returns its answer."""
        return self._data(value) if not self.is_functional else None

    def _data(self, value: Any) -> Part | None:
        """Return the value as a data part. Log once a value that cannot be sent, and return None."""
        try:
            return data_part(value)
        except AgentFailed as error:
            if not self._has_unsent:
                logger.warning("%s", error)
            self._has_unsent = True
            return None


def _of_results(results: Sequence[ToolMessage]) -> Message | None:
    """Return the results of tools as one message; None if they have no content for the client."""
    parts = [part for result in results for part in content_parts(result)]
    return Message(role=Role.ROLE_AGENT, message_id=results[-1].id or "", parts=parts) if parts else None


def _direct_tools(graph: Graph) -> Iterator[str]:
    return (name for name, tool in tools_of(graph) if tool.return_direct)
