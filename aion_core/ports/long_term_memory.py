"""Long-term memory: items that an agent keeps for an owner from one conversation to the next."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

MAX_MEMORY_BYTES = 350_000
"""The longest value of an item."""
MAX_MEMORY_NAME_BYTES = 800
"""The longest namespace and key of an item together, each label with a byte more."""

Namespace = tuple[str, ...]
"""A path of labels. A label is not empty and holds no "."."""


class MemoryScope(NamedTuple):
    """The owner and the agent of a memory; no other scope reads or writes it."""

    owner: str
    agent: str


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """A stored item."""

    namespace: Namespace
    key: str
    value: str
    """JSON."""
    created_at: datetime
    updated_at: datetime
    ttl: timedelta | None = None
    """Lifetime after the item's last write or touch; None keeps it for ever."""


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """A put of an item; a delete where there is no value."""

    namespace: Namespace
    key: str
    value: str | None
    ttl: timedelta | None = None


class LongTermMemory(Protocol):
    """The long-term memory of all owners.

    Reads are consistent: they return every write that has returned. An item whose TTL has passed is not there. Every
    method may raise StoreUnavailable or StoreError.
    """

    async def get(self, scope: MemoryScope, namespace: Namespace, key: str) -> MemoryItem | None:
        """Return the item, None where there is no such item."""
        ...

    def search(self, scope: MemoryScope, prefix: Namespace) -> AsyncGenerator[MemoryItem, None]:
        """Yield the items of all namespaces that begin with the prefix: a namespace at a time, in the order of the keys.

        Items are read as they are asked for: close the generator when it has yielded enough.
        """
        ...

    async def namespaces(self, scope: MemoryScope, prefix: Namespace) -> Sequence[Namespace]:
        """Return each namespace that begins with the prefix and holds an item, in no promised order."""
        ...

    async def write(self, scope: MemoryScope, *changes: MemoryWrite) -> None:
        """Make the changes; up to ten are made all or nothing. Of two changes of one item the last counts.

        A repeat changes nothing but the time of the update. Raises LeaseLost if another holder has the turn's context:
        nothing is written then. Two contexts of one owner have fences of their own, so of their writes of one item the
        later replaces the earlier: put what two conversations may write at the same time into items of its own.
        """
        ...

    async def touch(self, scope: MemoryScope, *items: MemoryItem) -> None:
        """Let the TTL of the items begin anew; an item that was changed or deleted since it was read is left alone."""
        ...

    async def forget(self, owner: str, *, dry_run: bool = False) -> int:
        """Delete everything of the owner, of all agents, and return how many items these were.

        With `dry_run` count them only. A turn of the owner that runs meanwhile may write again: end it first.
        """
        ...
