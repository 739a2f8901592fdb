"""Stored state of a context, in the terms of its agent's framework."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct


class StateEntry(Struct, frozen=True):
    """One entry of an agent's stored state: a checkpoint of a LangGraph thread, or an event of an ADK session."""

    id: str
    label: str
    """Description in a few words, such as the step and the next nodes."""
    at: str
    """Time of the entry in ISO 8601; "" if unknown."""
    content: Any
    """The whole entry as plain JSON."""


class StoredState(Struct, frozen=True):
    """Stored state of a context as plain JSON, with the names that its framework uses."""

    kind: str
    """Name of the store in the framework, such as "ADK session"."""
    id: str
    """Id in the framework, such as the thread's id."""
    values: Any
    """The current state."""
    entries: Sequence[StateEntry]
    """The newest entries, newest first."""


class Fork(Struct, frozen=True):
    """Start of another context, from an entry of a stored state."""

    runs: bool
    """True if a message has to be sent that runs the agent from there; False if the entry has nothing to run."""
    parts: Sequence[Any] = ()
    """Parts of this message as JSON; () if its content does not matter, because it only starts the next nodes."""
