"""Answer of a graph's turn, taken from the messages and other values that the turn adds to the graph's state."""

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from msgspec import Struct

from aion_core.agents.langgraph.content import (
    INBOX,
    MESSAGES,
    OUTBOX,
    Graph,
    ai_messages,
    content_parts,
    data_part,
    has_content,
    has_single_value,
    message_of,
)
from aion_core.agents.langgraph.thread import STRUCTURED, as_messages, messages_of, updates_in
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Message, Part, Role, utf8

logger = logging.getLogger(__name__)

Identity = tuple[str | None, str, str]
"""Identity of a LangChain message: its id, type and content."""

# ── Messages of the state ─────────────────────────────────────────────────────────────────────────────────────────────


class AddedMessages:
    """AIMessages that a turn adds to the graph's state, collected after each step."""

    def __init__(self, before: Sequence[BaseMessage]) -> None:
        """Exclude the messages that the state had before the turn, because they cannot be the turn's answer."""
        self._counts = _counted(before)
        self._before = {identity for identity in self._counts if identity[0]}
        self._new_identities: set[Identity] = set()
        self._all_added: list[AIMessage] = []
        """All messages added by the turn, in order, including those removed again."""

    def observe(self, messages: Sequence[BaseMessage]) -> None:
        """Collect the state's messages that are new or edited since the last step."""
        counts = _counted(messages)
        new = {identity for identity, count in counts.items() if count > self._counts[identity]} - self._before
        self._counts = counts
        self._new_identities |= new
        self._all_added += [message for message in self._among(messages, new) if isinstance(message, AIMessage)]

    def answer(self, messages: Sequence[BaseMessage]) -> Message | None:
        """Return the turn's answer: its last AIMessage with text or a file, preferably one still in the state.

        If the last message has neither, use the last one with content and without tool calls: messages with tool calls
        are intermediate.
        """
        in_state = [message for message in self._new(messages) if isinstance(message, AIMessage)]
        last = _answer(in_state) or _answer(self._all_added)
        return message_of(last) if last is not None else None

    def latest_answer(self) -> Message | None:
        """Return the last added AIMessage with content and without tool calls."""
        last = _complete(self._all_added)
        return message_of(last) if last is not None else None

    def last(self) -> Message | None:
        """Return the last added AIMessage, even if it has no content."""
        return message_of(self._all_added[-1]) if self._all_added else None

    def of_models(self) -> list[AIMessage]:
        """Return the added messages that models have generated and that call no tools."""
        return [
            message
            for message in self._all_added
            if _speaks(message) and (message.response_metadata or str(message.id).startswith(_RUN))
        ]

    def has_seen(self, message_id: str) -> bool:
        """Return True if the turn has added a message with this id, even if it was removed again."""
        return any(message.id == message_id for message in self._all_added)

    def current(self, message_id: str) -> AIMessage | None:
        """Return the newest version of the added message with this id; None if the state no longer has the message."""
        versions = (message for message in reversed(self._all_added) if message.id == message_id)
        return next((message for message in versions if self.contains(message)), None)

    def contains(self, message: AIMessage) -> bool:
        """Return True if the state had the AIMessage when it was last observed."""
        return self._counts[_identity(message)] > 0

    def beside_tool_calls(self) -> Iterator[tuple[int, AIMessage]]:
        """Yield the added AIMessages with content and tool calls, each with its number among those with tool calls."""
        callers = [message for message in self._all_added if message.tool_calls]
        return ((number, message) for number, message in enumerate(callers) if has_content(message))

    def direct_results(self, messages: Sequence[BaseMessage], tools: Collection[str]) -> list[ToolMessage]:
        """Return the turn's results of the `tools` with `return_direct`, if `messages` ends with such results."""
        results: list[ToolMessage] = []
        for message in reversed(messages):
            if not isinstance(message, ToolMessage) or message.name not in tools:
                break
            results.insert(0, message)
        return [message for message in self._new(results) if isinstance(message, ToolMessage)]

    def _new(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return self._among(messages, self._new_identities)

    @staticmethod
    def _among(messages: Sequence[BaseMessage], identities: Collection[Identity]) -> list[BaseMessage]:
        return [message for message in _of_agent(messages) if _identity(message) in identities]


_RUN = "lc_run-"
"""Beginning of the message ids that LangChain generates for model calls."""


def _answer(messages: Sequence[AIMessage]) -> AIMessage | None:
    return messages[-1] if messages and has_content(messages[-1]) else _complete(messages)


def _complete(messages: Sequence[AIMessage]) -> AIMessage | None:
    return next((message for message in ai_messages(messages) if _speaks(message)), None)


def _counted(messages: Sequence[BaseMessage]) -> Counter[Identity]:
    return Counter(map(_identity, _of_agent(messages)))


def _of_agent(messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
    """Yield AIMessages and ToolMessages, the only possible answers. Skipping users' large files saves time."""
    return (message for message in messages if isinstance(message, AIMessage | ToolMessage))


def _identity(message: BaseMessage) -> Identity:
    content: Any = message.content
    return message.id, message.type, content if isinstance(content, str) else repr(content)


class ReturnedMessages(Struct, frozen=True):
    """Several AIMessages in the return value of one node, which the runner has not recorded yet."""

    namespace: tuple[str, ...]
    """Namespace of the node's graph."""
    run: str
    """The checkpoint_ns of the node's run. It is the same after a crash."""
    messages: Sequence[AIMessage]


def returned_together(graph: Graph, run: str, output: Any) -> ReturnedMessages | None:
    """Return the messages in a node's return value, if there are several and they get into the graph's state.

    `run` is the node's checkpoint_ns. A node of a subgraph counts if the subgraph itself is a node of its parent graph.
    The return value of a subgraph does not count, because its nodes have already returned these messages.
    """
    writes = list(updates_in(output))
    returned = [message for written in writes for message in messages_of(written)]
    if len(returned) < 2:
        return None
    *namespace, last = run.split("|")
    node, within = last.partition(":")[0], _graph_at(graph, namespace)
    messages = [message for message in returned if _speaks(message)]
    if len(messages) < 2 or within is None or _is_graph(within, node) or any(OUTBOX in written for written in writes):
        return None
    return ReturnedMessages(tuple(namespace), run, messages)


def _speaks(message: BaseMessage) -> TypeGuard[AIMessage]:
    """Return True if the message may be an answer: an AIMessage with content and without tool calls."""
    return isinstance(message, AIMessage) and has_content(message) and not message.tool_calls


def _graph_at(graph: Graph, namespace: Sequence[str]) -> Graph | None:
    """Return the subgraph at a namespace; None if a function of a node calls one of the graphs on the path."""
    for part in namespace:
        node = graph.nodes.get(part.partition(":")[0])
        if node is None or not isinstance(node.bound, Pregel):
            return None
        graph = node.bound
    return graph


def _is_graph(graph: Graph, node: str) -> bool:
    return node in graph.nodes and isinstance(graph.nodes[node].bound, Pregel)


# ── Answer ────────────────────────────────────────────────────────────────────────────────────────────────────────────


NO_ANSWER = (
    "The turn has no answer for its client. Let a node return an AIMessage with text in `messages`, or call "
    "`thread.reply`, or return the result in a state without `messages` or by an `output_schema`; an @entrypoint returns it."
)


_METADATA = "__metadata__"
"""Key of LangGraph's own data in an event of the mode "updates"."""


class GraphAnswer:
    """Answer of a turn, taken from a graph's state or from the return value of a functional graph."""

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
        last = _complete([message for message in self._cached if isinstance(message, AIMessage)])
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


def tools_of(graph: Graph) -> Iterator[tuple[str, Any]]:
    """Yield name and tool for each tool in the graph's ToolNodes, including those of its subgraphs."""
    for node in graph.nodes.values():
        # Recognise a ToolNode by its attribute, because its import is slow and most graphs have no ToolNode.
        tools = getattr(node.bound, "tools_by_name", None)
        if isinstance(tools, dict):
            yield from tools.items()
    for _, nested in graph.get_subgraphs():
        if isinstance(nested, Pregel):
            yield from tools_of(nested)
