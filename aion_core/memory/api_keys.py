"""API keys in a dict, with the promises of `ports.ApiKeys`."""

from collections.abc import Sequence

from aion_core.errors import StoreError
from aion_core.ports import Clock, KeyRecord


class MemoryApiKeys:
    """`ports.ApiKeys` for a process that may forget."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[str, KeyRecord] = {}

    async def add(self, key: KeyRecord) -> None:
        """See `ports.ApiKeys.add`."""
        if key.id in self._keys:
            raise StoreError("There is a key of this id.")
        self._keys[key.id] = key

    async def find(self, key_id: str) -> KeyRecord | None:
        """See `ports.ApiKeys.find`."""
        key = self._keys.get(key_id)
        return key if key is not None and self._lives(key) else None

    async def all(self) -> Sequence[KeyRecord]:
        """See `ports.ApiKeys.all`."""
        living = [key for key in self._keys.values() if self._lives(key)]
        return sorted(living, key=lambda key: (key.created, key.id), reverse=True)

    async def revoke(self, key_id: str) -> bool:
        """See `ports.ApiKeys.revoke`."""
        return self._keys.pop(key_id, None) is not None

    def _lives(self, key: KeyRecord) -> bool:
        return key.expires is None or key.expires > self._clock.now()
