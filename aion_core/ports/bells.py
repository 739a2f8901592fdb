"""What wakes a function that runs turns."""

from dataclasses import dataclass
from typing import Protocol

from aion_core.ports.log import ContextKey


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
