"""Which AIMessages a turn has added to the messages of its state, step by step: the last of them is its answer. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from aion_core.protocol.types import Message, Part, Role

Identity = tuple[str | None, str, str]
"""What tells messages apart: the id, and what is said; without an id, what is said alone."""


class Added:
    """Sees the state's messages after each step of a turn."""

    def __init__(self, before: Sequence[BaseMessage]) -> None:
        """`before` are the messages as the turn found them: none of them is ever its answer (D7)."""
        self._held = Counter(map(_identity, before))
        self._before = {identity for identity in self._held if identity[0]}
        self._added: set[Identity] = set()
        self._seen: list[AIMessage] = []
        """All that was added, in order, and may have been removed again."""

    def see(self, messages: Sequence[BaseMessage]) -> None:
        """Note what is new since the last step, or has been changed: an edited message is another one."""
        held = Counter(map(_identity, messages))
        new = {identity for identity, count in held.items() if count > self._held[identity]} - self._before
        self._held = held
        self._added |= new
        self._seen += _among(messages, new)

    def answer(self, messages: Sequence[BaseMessage]) -> Message | None:
        """Return the turn's last AIMessage with text (R80): of those that are there, else of those that were removed.

        Where the last has none, what was said along with a call of a tool is not the answer: it was said on the way.
        """
        last = _answer(_among(messages, self._added)) or _answer(self._seen)
        return message_of(last) if last is not None else None

    def so_far(self) -> Message | None:
        """Return the last AIMessage with text that the turn has added, other than along with a call of a tool."""
        last = _complete(self._seen)
        return message_of(last) if last is not None else None


def message_of(message: AIMessage) -> Message:
    """Return the AIMessage as an A2A message: one text part, and its id where it has one (R79, R80)."""
    # Half a surrogate pair cannot be kept.
    text = str(message.text).encode("utf-8", "replace").decode()
    return Message(role=Role.ROLE_AGENT, message_id=message.id or "", parts=[Part(text=text)])


def _among(messages: Sequence[BaseMessage], identities: Collection[Identity]) -> list[AIMessage]:
    return [message for message in messages if isinstance(message, AIMessage) and _identity(message) in identities]


def _answer(messages: Sequence[AIMessage]) -> AIMessage | None:
    return messages[-1] if messages and messages[-1].text else _complete(messages)


def _complete(messages: Sequence[AIMessage]) -> AIMessage | None:
    return next((message for message in reversed(messages) if message.text and not message.tool_calls), None)


def _identity(message: BaseMessage) -> Identity:
    content: Any = message.content
    return message.id, message.type, content if isinstance(content, str) else repr(content)
