"""Where the API keys of a deployment are kept: their hashes, and whose they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key, as it is kept; nobody can call with what stands here."""

    id: str
    """What a key begins with, by which it is found."""
    sha256: str
    """The hash of the whole key, in hexadecimal: 256 bits of chance need no slower one."""
    principal: str
    """Whose it is. Tasks are the principal's: a key that is replaced by another of theirs costs none."""
    created: datetime
    last4: str
    """Its last characters, by which its holder knows it again."""
    agents: frozenset[str] | None = None
    """The agents that may be called with it; None for all."""
    scopes: frozenset[str] = frozenset()
    tenant: str = ""
    """The tenant that it is for; "" where its holder chooses."""
    expires: datetime | None = None


class ApiKeys(Protocol):
    """The keys of one deployment."""

    async def add(self, key: KeyRecord) -> None:
        """Keep a new key; raises StoreError, also where there is a key of this id."""
        ...

    async def find(self, key_id: str) -> KeyRecord | None:
        """Return the key of this id, as it is now; None where there is none, or it has expired.

        Raises StoreError.
        """
        ...

    async def all(self) -> Sequence[KeyRecord]:
        """Return the keys, the newest first; one that was added a moment ago may be missing. Raises StoreError."""
        ...

    async def revoke(self, key_id: str) -> bool:
        """Take the key away, at once; tell whether there was one. Raises StoreError."""
        ...
