"""Agents as people write them, with what a client receives from each: the cases of `docs/agents.md`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Sent = str | dict[str, Any]
"""Text or part of a client's message."""


@dataclass(frozen=True)
class Turn:
    """Client's message, and what the client receives for it."""

    sent: tuple[Sent, ...] = ("Hi",)
    state: str = "COMPLETED"
    answer: str | None = None
    """Text of the last status's message; None without a message."""
    before: tuple[str, ...] = ()
    """Texts of the agent's messages before the answer, in the task's history."""
    streamed: tuple[str, ...] = ()
    """Texts of the stream delta that are in no message."""
    parts: tuple[dict[str, Any], ...] = ()
    """Parts of the answer that are not text, in their v1 form."""
    artifacts: dict[str, str] = field(default_factory=dict)
    """Texts of the task's artifacts, by name."""
    each: str | None = None
    """Text that answers each of several interrupts, in one message."""
    new_context: bool = False
    """True if the message begins a new context."""


@dataclass(frozen=True)
class Case:
    """Agent with its turns; each turn after the first continues the context, or the interrupted task."""

    agent: Callable[[], Any]
    turns: tuple[Turn, ...]


class Cases(dict[str, Case]):
    """Cases by their names in `docs/agents.md`."""

    def add(self, name: str, *turns: Turn) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Return a decorator that adds an agent's factory."""

        def added(agent: Callable[[], Any]) -> Callable[[], Any]:
            self[name] = Case(agent, turns)
            return agent

        return added
