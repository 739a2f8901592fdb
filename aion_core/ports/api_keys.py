"""API key port: stores the hashes and principals of a deployment's API keys."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class KeyRecord(Struct, frozen=True):
    """Stored record of an API key: its hash, principal and permissions. It does not contain the key."""

    id: str
    """First characters of the API key, used to find its record."""
    sha256: str
    """SHA-256 of the whole key in hexadecimal. A key of 256 random bits needs no slower hash."""
    principal: str
    """Owner of the tasks created with the key. A replacement key has the same principal, and so the same tasks."""
    created: datetime
    last4: str
    """Last characters of the key, so that its user can recognise it."""
    agents: frozenset[str] | None = None
    """Agents that the key may call; None for all."""
    scopes: frozenset[str] = frozenset()
    tenant: str = ""
    """The only tenant that the key may use; "" for any."""
    expires: datetime | None = None


class ApiKeys(Protocol):
    """Store of the API keys of one deployment."""

    async def add(self, key: KeyRecord) -> None:
        """Store the record of a new API key. Raises StoreError, also for a duplicate id."""
        ...

    async def find(self, key_id: str) -> KeyRecord | None:
        """Return the record of the API key with this id; None if it does not exist or has expired.

        The read is consistent. Raises StoreError.
        """
        ...

    async def all(self) -> Sequence[KeyRecord]:
        """Return the records of all API keys, newest first. The index may lag behind `add`. Raises StoreError."""
        ...

    async def revoke(self, key_id: str) -> bool:
        """Delete an API key with immediate effect. Return True if it existed. Raises StoreError."""
        ...
