"""Values in a graph's state."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langgraph.types import StateSnapshot
from msgspec import Struct

from aion_core.agents.langgraph.graph import MESSAGES


class StateHistory(Struct, frozen=True):
    """Values of a graph's state before a turn, and after each stored step of the turn."""

    before: Mapping[str, Any]
    """Values of the state at the start of the turn."""
    since: Sequence[Mapping[str, Any]] = ()
    """Values of the state after each stored step of the turn, in order."""
    given: Mapping[str, Any] = {}
    """Values that the client's message has given to the state. `before` has them too."""


def client_id(message_id: str) -> str:
    """Return the id of the client's HumanMessage if a message of the agent has the client's messageId."""
    return f"client-{message_id}"


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
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    # Look at the types alone first: almost every state has messages only, and a turn reads them several times.
    if all(issubclass(kind, BaseMessage) for kind in {*map(type, value)}):
        return list(value)
    messages: list[BaseMessage] = []
    for message in value:
        if isinstance(message, BaseMessage):
            messages.append(message)
        elif isinstance(message, dict | tuple):
            with suppress(ValueError, TypeError, KeyError, NotImplementedError):
                messages += convert_to_messages([message])
    return messages


def adds_text(values: Any, before: Mapping[str, Any], text: str) -> bool:
    """Return True if the state has a new message with exactly this text that is no AIMessage.

    An AIMessage does not count: the server itself adds a streamed text as one, and a resumed turn finds it in the state.
    """
    known = {message.id for message in messages_of(before) if message.id}
    added = [message for message in messages_of(values) if message.id not in known]
    return any(str(message.text) == text for message in added if not isinstance(message, AIMessage))


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
