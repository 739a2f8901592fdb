"""Dead letters: messages of a queue that could not be handled."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class DeadLetter(Struct, frozen=True):
    """A queue message whose handling has failed after all retries."""

    id: str
    body: str
    sent_at: datetime
    """Time at which the message was first sent."""
    receipt: str = ""


class DeadLetters(Protocol):
    """Dead-letter queue of one queue. Every method may raise StoreError."""

    async def read(self, limit: int) -> list[DeadLetter]:
        """Return up to `limit` dead letters, without duplicates. Other readers may not see them until `give_back`."""
        ...

    async def give_back(self, letters: Sequence[DeadLetter]) -> int:
        """Make dead letters from `read` visible to other readers again. Return the number of those that stay hidden."""
        ...

    async def redrive(self) -> None:
        """Move all dead letters back into their queue. During the move, a message may be in both queues."""
        ...

    async def drop(self, letter: DeadLetter) -> None:
        """Delete the dead letter, if it exists."""
        ...
