"""Long-term memory port: items that an agent stores for an owner, across conversations."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from msgspec import Struct

MAX_MEMORY_BYTES = 350_000
"""Longest value of a memory item, in bytes."""
MAX_MEMORY_NAME_BYTES = 800
"""Longest namespace and key of an item together in bytes, counting one byte more for each label."""

Namespace = tuple[str, ...]
"""A path of labels. A label is not empty and holds no "."."""


class MemoryScope(NamedTuple):
    """The owner and the agent of memory items. Other owners and agents cannot read or write them."""

    owner: str
    agent: str


class MemoryItem(Struct, frozen=True):
    """A stored item of long-term memory."""

    namespace: Namespace
    key: str
    value: str
    """The value as JSON text."""
    created_at: datetime
    updated_at: datetime
    ttl: timedelta | None = None
    """Lifetime after the item's last write or touch; None for no expiry."""


class MemoryWrite(Struct, frozen=True):
    """A write of a memory item: a put, or a delete if `value` is None."""

    namespace: Namespace
    key: str
    value: str | None
    ttl: timedelta | None = None


class LongTermMemory(Protocol):
    """The long-term memory of all owners.

    Reads are consistent and include every completed write, but no expired items. Every method may raise
    StoreUnavailable or StoreError.
    """

    async def get(self, scope: MemoryScope, namespace: Namespace, key: str) -> MemoryItem | None:
        """Return the memory item of this namespace and key; None if it does not exist."""
        ...

    def search(self, scope: MemoryScope, prefix: Namespace) -> AsyncGenerator[MemoryItem, None]:
        """Yield the items of all namespaces under the prefix, one namespace after the other, each sorted by key.

        The generator reads lazily: close it after the last item you need.
        """
        ...

    async def namespaces(self, scope: MemoryScope, prefix: Namespace) -> Sequence[Namespace]:
        """Return all namespaces under the prefix that have items, in any order."""
        ...

    async def write(self, scope: MemoryScope, *changes: MemoryWrite) -> None:
        """Write the changes of memory items, atomically in groups of up to ten. The last change of an item wins.

        A repeated call renews only `updated_at` and the TTLs. If another holder has the turn's context, nothing is
        written and LeaseLost is raised. The fence covers one context only. So two conversations of an owner should
        write different items: the later write replaces the earlier one.
        """
        ...

    async def touch(self, scope: MemoryScope, *items: MemoryItem) -> None:
        """Restart the TTL of the items. Do not touch items changed or deleted since they were read."""
        ...

    async def forget(self, owner: str, *, dry_run: bool = False) -> int:
        """Delete all items of the owner, of all agents, and return their number.

        With `dry_run`, only count the items. End the owner's running turns first, since they could write again.
        """
        ...
