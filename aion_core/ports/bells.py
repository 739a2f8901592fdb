"""What wakes a function: one that runs turns, or one that delivers notifications."""

from dataclasses import dataclass
from typing import Protocol

from aion_core.ports.tasks import ContextKey, TaskKey


@dataclass(frozen=True, slots=True)
class Bell:
    """Says that there may be something to do in a context; it may be lost, late, doubled or in vain."""

    context: ContextKey
    fence: int = 0
    """The lease over which it watches: it asks whether that is still alive. 0 where it asks for any turn that waits."""


class Bells(Protocol):
    """Wakes a function that runs turns. The table says what is to be done; a bell says when to look."""

    async def ring(self, bell: Bell, *, delay: float = 0.0) -> None:
        """Let the bell be heard after so many seconds, at most 900. Raises StoreUnavailable."""
        ...

    def ring_from_thread(self, bell: Bell, *, delay: float = 0.0) -> None:
        """Do as `ring`, blocking, from a thread of one's own: an agent may block the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class PushBell:
    """Says that there may be something to post for a task; it may be lost, late, doubled or in vain."""

    task: TaskKey
    generation: int = 0
    """The event that it is rung for; 0 where it is a retry, or a new config."""


class PushBells(Protocol):
    """Wakes a function that delivers notifications. The table says what is to be posted; a bell says when to look."""

    async def ring(self, bell: PushBell, *, delay: float = 0.0) -> None:
        """Let the bell be heard after so many seconds, at most 900. Raises StoreUnavailable."""
        ...
