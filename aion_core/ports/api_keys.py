"""API keys of a deployment: their hashes and principals."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as it is stored, with its hash only."""

    id: str
    """First characters of the key, used to find it."""
    sha256: str
    """The hash of the whole key, in hexadecimal: 256 random bits need no slower one."""
    principal: str
    """Owner of the tasks; a replacement key keeps the principal and the tasks."""
    created: datetime
    last4: str
    """Last characters of the key, for its holder."""
    agents: frozenset[str] | None = None
    """The permitted agents; None for all."""
    scopes: frozenset[str] = frozenset()
    tenant: str = ""
    """The only permitted tenant; "" for any."""
    expires: datetime | None = None


class ApiKeys(Protocol):
    """The keys of one deployment."""

    async def add(self, key: KeyRecord) -> None:
        """Store a new key; raises StoreError, also for a duplicate id."""
        ...

    async def find(self, key_id: str) -> KeyRecord | None:
        """Return the key of this id, None if it does not exist or has expired; consistent.

        Raises StoreError.
        """
        ...

    async def all(self) -> Sequence[KeyRecord]:
        """Return the keys, newest first; the index may lag behind `add`. Raises StoreError."""
        ...

    async def revoke(self, key_id: str) -> bool:
        """Delete the key, at once; return True if it existed. Raises StoreError."""
        ...
