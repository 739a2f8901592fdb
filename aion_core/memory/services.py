"""In-memory blobs, cipher and metrics."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from aion_core.errors import StoreCorrupt
from aion_core.ports import Metric

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEY, _NONCE = 32, 12
"""Lengths of an AES-256 key and of a GCM nonce, in bytes."""


class MemoryBlobs:
    """`ports.Blobs` for one process."""

    def __init__(self) -> None:
        self._blobs: dict[str, tuple[bytes, Mapping[str, str]]] = {}

    async def put(self, name: str, content: bytes) -> None:
        """See `ports.Blobs.put`."""
        self._blobs[name] = content, {}

    async def put_new(self, name: str, content: bytes, metadata: Mapping[str, str], *, media_type: str = "") -> bool:
        """See `ports.Blobs.put_new`."""
        blob = content, dict(metadata)
        return self._blobs.setdefault(name, blob) is blob

    async def get(self, name: str) -> bytes | None:
        """See `ports.Blobs.get`."""
        return self._blobs[name][0] if name in self._blobs else None

    async def metadata(self, name: str) -> Mapping[str, str] | None:
        """See `ports.Blobs.metadata`."""
        return self._blobs[name][1] if name in self._blobs else None

    async def names(self, prefix: str) -> Sequence[str]:
        """See `ports.Blobs.names`."""
        return [name for name in list(self._blobs) if name.startswith(prefix)]

    async def delete(self, name: str) -> None:
        """See `ports.Blobs.delete`."""
        self._blobs.pop(name, None)


class MemoryCipher:
    """`ports.Cipher` for tests and development, using AES-256-GCM with a key in memory."""

    def __init__(self, key: bytes = b"") -> None:
        """Without a `key`, generate one for the lifetime of this process."""
        self._key = key or os.urandom(_KEY)

    async def encrypt(self, content: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.encrypt`."""
        nonce = os.urandom(_NONCE)
        return nonce + self._aes.encrypt(nonce, content, about.encode())

    async def decrypt(self, encrypted: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.decrypt`."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aes.decrypt(encrypted[:_NONCE], encrypted[_NONCE:], about.encode())
        except (InvalidTag, ValueError) as error:
            raise StoreCorrupt("Encrypted data cannot be decrypted: it was changed or moved.") from error

    @cached_property
    def _aes(self) -> "AESGCM":
        # Import late, because the import takes 7 MB and most processes encrypt nothing.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)


class MemoryMetrics:
    """`ports.Metrics` for tests. It stores every value, even before a flush."""

    def __init__(self) -> None:
        self.values: dict[Metric, list[float]] = defaultdict(list)
        self.agents: dict[Metric, set[str]] = defaultdict(set)
        self.unflushed = 0
        """Number of values since the last flush."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """See `ports.Metrics.count`."""
        self.values[metric].append(value)
        self.agents[metric].add(agent)
        self.unflushed += 1

    def flush(self) -> None:
        """See `ports.Metrics.flush`."""
        self.unflushed = 0

    def total(self, metric: Metric) -> float:
        """Return the sum of a metric's values, 0 if it has none."""
        return sum(self.values.get(metric, ()))
