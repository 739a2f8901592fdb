"""Answers of a turn in a graph's state, or in the return value of a functional graph.

`aion_core.agents.final_answer` decides if one of them is the turn's answer.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph.state import CompiledStateGraph

from aion_core.agents.langgraph.added_messages import AddedMessages, last_complete
from aion_core.agents.langgraph.graph import INBOX, MESSAGES, OUTBOX, STRUCTURED, Graph, has_single_value, tools_of
from aion_core.agents.langgraph.parts import ai_messages, content_parts, data_part, has_content, message_of
from aion_core.agents.langgraph.state import as_messages, messages_of
from aion_core.agents.langgraph.unreturned_output import updates_in
from aion_core.errors import AgentFailed
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Message, Part, Role

logger = logging.getLogger(__name__)

NO_ANSWER = (
    "The turn has no answer for its client. Let a node return an AIMessage with text in `messages`, or call "
    "`thread.reply`, or return the result in a state without `messages` or by an `output_schema`; an @entrypoint returns it."
)
_METADATA = "__metadata__"
"""Key of LangGraph's own data in an event of the mode "updates"."""


class GraphAnswer:
    """Possible answers of a turn, taken from a graph's state or from the return value of a functional graph."""

    def __init__(self, graph: Graph, before: Mapping[str, Any]) -> None:
        """Exclude the values of the state `before` the turn, because they cannot be the turn's answer."""
        self._has_single_value = has_single_value(graph)
        self._functional = not isinstance(graph, CompiledStateGraph) or self._has_single_value
        self._direct_tools = frozenset(_direct_tools(graph))
        self._outputs = _output_names(graph)
        self._others = _state_names(graph)
        self._before, self._written = before, set[str]()
        self._graph = graph
        self._cached: list[BaseMessage] = []
        """Messages of nodes with a `cache_policy` that did not run. The state may have them from an earlier turn."""
        self.added = AddedMessages(messages_of(before))
        self.has_unsent = False
        """True if the turn has data that cannot be sent."""

    def observe_update(self, update: Any) -> None:
        """Record the state's keys that a step of the main graph has written, and the messages of its cached nodes."""
        if not isinstance(update, Mapping):
            return
        for name, written in update.items():
            for values in updates_in(written) if name != _METADATA else ():
                self._written.update(values)
                # Check that a cache policy exists, because LangGraph marks a node's result as cached also if it only
                # reuses the result after an interrupt of another node in the same step.
                if _METADATA in update and (self._graph.cache_policy or self._graph.nodes[name].cache_policy):
                    self._cached += messages_of(values)

    def observe_steps(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Collect the messages and the changed keys from the state's values after each stored step of the turn."""
        for values in steps:
            self.added.observe(messages_of(values))
        for earlier, later in pairwise(steps):
            self._written.update(key for key, value in later.items() if _differs(value, earlier.get(key)))

    def returned(self, values: Any) -> Message | None:
        """Return the answer in the final values: a structured response, direct tool results, or an AIMessage.

        The answer of a functional graph is its return value, as text, message or data.
        """
        if self._functional:
            return self._value(values)
        messages = messages_of(values)
        answer = self.added.answer(messages)
        structured = self._data(values.get(STRUCTURED)) if self._is_new(values, STRUCTURED) else None
        if structured is not None:
            answer = answer or Message(role=Role.ROLE_AGENT)
            answer.parts.append(structured)
        elif results := self.added.direct_results(messages, self._direct_tools):
            parts = [part for result in results for part in content_parts(result)]
            answer = Message(role=Role.ROLE_AGENT, message_id=results[-1].id or "", parts=parts) if parts else answer
        return answer

    def returned_before(self, values: Any) -> list[AIMessage]:
        """Return the AIMessages in a functional graph's return value that the client receives before the answer.

        These are the AIMessages directly before the answer, and the AIMessages with tool calls since the client's
        message.
        """
        if not self._functional:
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

    def output(self, values: Any, structured: Any) -> Message | None:
        """Return the output keys other than messages that the turn has changed, as data, for a turn without text.

        If the turn has changed no such key, return `structured`, the last structured response of a subgraph.
        """
        if self._functional or not isinstance(values, Mapping):
            return None
        part = self._data({key: values[key] for key in self._outputs if self._is_new(values, key)})
        return _data_message(part or self._data(structured))

    def cached(self) -> Message | None:
        """Return a cached node's message as the answer, without its id, if the turn has added no message."""
        last = last_complete([message for message in self._cached if isinstance(message, AIMessage)])
        return message_of(last.model_copy(update={"id": None})) if last is not None else None

    def written(self, values: Any) -> Message | None:
        """Return all non-empty values that nodes have written, except messages, for a turn without any other output."""
        if self._functional or not isinstance(values, Mapping):
            return None
        keys = [key for key in self._others if key in self._written]
        return _data_message(self._data({key: values[key] for key in keys if not _is_empty(values.get(key))}))

    def _value(self, value: Any) -> Message | None:
        """Convert an `@entrypoint`'s return value to its answer: a text, an AIMessage, or any other value as data."""
        if isinstance(value, str):
            return Message(role=Role.ROLE_AGENT, parts=[Part(text=utf8(value))]) if value else None
        messages = messages_of(value) if isinstance(value, Mapping) else as_messages(value)
        # The value of a state without keys may also have messages of earlier turns, before the client's message.
        turn = takewhile(lambda each: not (self._has_single_value and isinstance(each, HumanMessage)), messages[::-1])
        last = next((each for each in turn if isinstance(each, AIMessage) and has_content(each)), None)
        if last is not None:
            return message_of(last)
        if messages:
            envelope = (MESSAGES, INBOX, OUTBOX)
            value = (
                {key: item for key, item in value.items() if key not in envelope}
                if isinstance(value, Mapping)
                else None
            )
        return _data_message(self._data(value))

    def _data(self, value: Any) -> Part | None:
        """Return the value as a data part. Log once a value that cannot be sent, and return None."""
        try:
            return data_part(value)
        except AgentFailed as error:
            if not self.has_unsent:
                self.has_unsent = True
                logger.warning("%s", error)
            return None

    def _is_new(self, values: Any, key: str) -> bool:
        if not isinstance(values, Mapping) or values.get(key) is None:
            return False
        return key in self._written or _differs(self._before.get(key), values[key])


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _differs(value: Any, other: Any) -> bool:
    try:
        return bool(value != other)
    except ValueError:
        # Treat arrays, such as NumPy's, as different, because Python cannot convert the comparison of two arrays to a
        # bool.
        return True


def _data_message(part: Part | None) -> Message | None:
    return Message(role=Role.ROLE_AGENT, parts=[part]) if part is not None else None


def _output_names(graph: Graph) -> list[str]:
    """Return the keys of the state that may be an answer by themselves.

    If the state has no messages or the graph has a separate output schema, these are all keys of the output. Otherwise
    there are none, because the keys beside a conversation's messages are an answer only for a turn without any other
    output. See `written`.
    """
    builder = getattr(graph, "builder", None)
    if builder is None or (MESSAGES in graph.channels and builder.output_schema is builder.state_schema):
        return []
    return _state_names(graph)


def _state_names(graph: Graph) -> list[str]:
    """Return the keys of the graph's output, without the keys for messages, inbox and outbox."""
    channels = graph.output_channels
    return [name for name in channels if name not in (MESSAGES, INBOX, OUTBOX)] if not isinstance(channels, str) else []


def _direct_tools(graph: Graph) -> Iterator[str]:
    return (name for name, tool in tools_of(graph) if tool.return_direct)
