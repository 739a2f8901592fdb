"""Messages that a turn adds to a graph's state."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import takewhile
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

    def observe(self, messages: Sequence[BaseMessage]) -> list[AIMessage]:
        """Collect the state's messages that are new or edited since the last step. Return the AIMessages among them."""
        counts = _counted(messages)
        new = {identity for identity, count in counts.items() if count > self._counts[identity]} - self._before
        self._counts = counts
        self._new_identities |= new
        added = [each for each in self._among(messages, new) if isinstance(each, AIMessage)] if new else []
        self._all_added += added
        return added

    def answer(self, messages: Sequence[BaseMessage]) -> Message | None:
        """Return the turn's answer: its last AIMessage with text or a file, preferably one still in the state.

        If the last message has neither, use the last one with content and without tool calls: messages with tool calls
        are intermediate.
        """
        in_state = [message for message in self._new(messages) if isinstance(message, AIMessage)]
        last = _answer(in_state) or _answer(self._all_added)
        return message_of(last) if last is not None else None

    def go_on_after_calls(self, messages: Sequence[BaseMessage]) -> bool:
        """Return True if other messages follow the turn's last AIMessage in the state, and it calls tools."""
        if not messages or isinstance(messages[-1], AIMessage):
            return False
        last = next((each for each in reversed(self._new(messages)) if isinstance(each, AIMessage)), None)
        return last is not None and bool(last.tool_calls)

    def last_id(self) -> str | None:
        """Return the id of the last added AIMessage, even if it has no content; None without a message or an id."""
        return self._all_added[-1].id if self._all_added else None

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

    def direct_results(self, messages: Sequence[BaseMessage], tools: Collection[str]) -> list[ToolMessage]:
        """Return the turn's results of the `tools` with `return_direct`, if `messages` ends with such results."""
        found = takewhile(lambda result: result.name in tools, reversed(trailing_results(messages)))
        return self._new_results([*found][::-1])

    def last_results(self, messages: Sequence[BaseMessage]) -> list[ToolMessage]:
        """Return the turn's tool results at the end of the messages, without notes of a hand-off between agents."""
        return self._new_results(trailing_results(messages))

    def _new_results(self, results: Sequence[ToolMessage]) -> list[ToolMessage]:
        return [message for message in self._new(results) if isinstance(message, ToolMessage)]

    def _new(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return self._among(messages, self._new_identities)

    @staticmethod
    def _among(messages: Sequence[BaseMessage], identities: Collection[Identity]) -> list[BaseMessage]:
        ids = {identity[0] for identity in identities}
        named = [message for message in messages if message.id in ids]
        return [message for message in _of_agent(named) if _identity(message) in identities]


_RUN = "lc_run-"
"""Beginning of the message ids that LangChain generates for model calls."""


def is_by_model(message: AIMessage) -> bool:
    """Return True if a model has generated the message, False if the author's code has made it."""
    return bool(message.response_metadata) or str(message.id).startswith(_RUN)


SENT = "aion_sent"
"""Key in the `response_metadata` of a message that aion has added to the state, because the client got it otherwise."""

_NOTES = frozenset({SENT, "__is_handoff_back", "__handoff_destination"})
"""Keys in the `response_metadata` of messages that no node says to the client: those that aion has added, and those by
which an agent of langgraph-supervisor notes that another agent takes over."""


def trailing_results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the tool results at the end of the messages, without notes of a hand-off between agents."""
    found = takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))
    return [each for each in _of_agent([*found]) if isinstance(each, ToolMessage)][::-1]


def _answer(messages: Sequence[AIMessage]) -> AIMessage | None:
    return messages[-1] if messages and has_content(messages[-1]) else last_complete(messages)


def last_complete(messages: Sequence[AIMessage]) -> AIMessage | None:
    """Return the last of the messages that may be an answer by itself, or None. See `may_answer`."""
    return next((message for message in ai_messages(messages) if may_answer(message)), None)


def _counted(messages: Sequence[BaseMessage]) -> Counter[Identity]:
    return Counter([_identity(message) for message in _of_agent(messages)])


def _of_agent(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the AIMessages and ToolMessages that are no notes. Skipping users' large files saves time."""
    kinds = {kind for kind in {*map(type, messages)} if issubclass(kind, AIMessage | ToolMessage)}
    return [
        message
        for message in messages
        if type(message) in kinds and (not message.response_metadata or _NOTES.isdisjoint(message.response_metadata))
    ]


def _identity(message: BaseMessage) -> Identity:
    content: Any = message.content
    return message.id, message.type, content if isinstance(content, str) else repr(content)


def may_answer(message: BaseMessage) -> TypeGuard[AIMessage]:
    """Return True if the message may be an answer: an AIMessage with content and without tool calls."""
    return isinstance(message, AIMessage) and has_content(message) and not message.tool_calls
