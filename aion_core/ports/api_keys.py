"""API keys of a deployment: their hashes and principals."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as it is stored, with its hash only."""

    id: str
    """The beginning of the key, by which it is found."""
    sha256: str
    """The hash of the whole key, in hexadecimal: 256 random bits need no slower one."""
    principal: str
    """The principal, who owns the tasks: they stay when the key is replaced by another."""
    created: datetime
    last4: str
    """Its last characters, by which its holder recognises it."""
    agents: frozenset[str] | None = None
    """The agents that may be called with it; None for all."""
    scopes: frozenset[str] = frozenset()
    tenant: str = ""
    """The only tenant that it may be used for; "" for any."""
    expires: datetime | None = None


class ApiKeys(Protocol):
    """The keys of one deployment."""

    async def add(self, key: KeyRecord) -> None:
        """Store a new key; raises StoreError, also if a key has this id."""
        ...

    async def find(self, key_id: str) -> KeyRecord | None:
        """Return the key of this id, None if it does not exist or has expired; consistent.

        Raises StoreError.
        """
        ...

    async def all(self) -> Sequence[KeyRecord]:
        """Return the keys, the newest first; one that was just added may be missing. Raises StoreError."""
        ...

    async def revoke(self, key_id: str) -> bool:
        """Delete the key, at once; return True if it existed. Raises StoreError."""
        ...
