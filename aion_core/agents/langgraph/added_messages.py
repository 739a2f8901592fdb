"""Messages that a turn adds to a graph's state."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from aion_core.agents.langgraph.parts import ai_messages, has_content, message_of
from aion_core.protocol.types import Message

Identity = tuple[str | None, str, str]
"""Identity of a LangChain message: its id, type and content."""


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
        last = last_complete(self._all_added)
        return message_of(last) if last is not None else None

    def last(self) -> Message | None:
        """Return the last added AIMessage, even if it has no content."""
        return message_of(self._all_added[-1]) if self._all_added else None

    def of_models(self) -> list[AIMessage]:
        """Return the added messages that models have generated and that call no tools."""
        return [
            message
            for message in self._all_added
            if may_answer(message) and (message.response_metadata or str(message.id).startswith(_RUN))
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
    return messages[-1] if messages and has_content(messages[-1]) else last_complete(messages)


def last_complete(messages: Sequence[AIMessage]) -> AIMessage | None:
    """Return the last of the messages that may be an answer by itself, or None. See `may_answer`."""
    return next((message for message in ai_messages(messages) if may_answer(message)), None)


def _counted(messages: Sequence[BaseMessage]) -> Counter[Identity]:
    return Counter(map(_identity, _of_agent(messages)))


def _of_agent(messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
    """Yield AIMessages and ToolMessages, the only possible answers. Skipping users' large files saves time."""
    return (message for message in messages if isinstance(message, AIMessage | ToolMessage))


def _identity(message: BaseMessage) -> Identity:
    content: Any = message.content
    return message.id, message.type, content if isinstance(content, str) else repr(content)


def may_answer(message: BaseMessage) -> TypeGuard[AIMessage]:
    """Return True if the message may be an answer: an AIMessage with content and without tool calls."""
    return isinstance(message, AIMessage) and has_content(message) and not message.tool_calls
