"""Envelope encryption with KMS.

Each encrypted text contains its own data key, encrypted by KMS: `version | length of the key | encrypted key | nonce |
ciphertext`.
"""

import asyncio
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import Struct

from aion_core.aws.client import AwsClient
from aion_core.clock import Clock
from aion_core.errors import StoreCorrupt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_LIFE = timedelta(hours=1)
"""Time for which one data key is used to encrypt. A process sends KMS one request an hour, and a leaked data key
exposes an hour's data."""

CACHED_KEYS = 256
"""Maximum number of decrypted data keys in the cache."""

CONTEXT = {"application": "aion"}
"""Encryption context. KMS decrypts a data key only with the same context, and logs the context with each use."""

_VERSION, _NONCE, _NEW = b"\x01", 12, b""


class _DataKey(Struct, frozen=True):
    wrapped: bytes
    key: "AESGCM"
    made: datetime


def _aes(made: Mapping[str, Any]) -> "AESGCM":
    """Return an AES-GCM cipher for the data key in a KMS response."""
    # Import late: the import takes 7 MB, and a function without push notifications or ADK sessions encrypts nothing.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(made["Plaintext"])


class KMSCipher:
    """Cipher whose data keys are encrypted by one KMS key (`Cipher`)."""

    def __init__(self, kms: AwsClient, clock: Clock, *, key: str) -> None:
        """Encrypt data keys by the KMS key with this ARN, id or alias."""
        self._kms, self._clock, self._key = kms, clock, key
        self._current: _DataKey | None = None
        self._cache: dict[bytes, AESGCM] = {}
        self._locks: WeakValueDictionary[tuple[int, bytes], asyncio.Lock] = WeakValueDictionary()
        """Locks by event loop and data key. Concurrent decryptions with one data key make one KMS request."""

    async def encrypt(self, content: bytes, *, about: str) -> bytes:
        """Encrypt the content with the current data key. See `Cipher.encrypt`."""
        current = await self._data_key()
        nonce = os.urandom(_NONCE)
        head = _VERSION + len(current.wrapped).to_bytes(2, "big") + current.wrapped
        return head + nonce + current.key.encrypt(nonce, content, about.encode())

    async def decrypt(self, encrypted: bytes, *, about: str) -> bytes:
        """Decrypt the content with the data key that it contains. See `Cipher.decrypt`."""
        from cryptography.exceptions import InvalidTag

        if encrypted[:1] != _VERSION:
            raise StoreCorrupt("Encrypted data has an unknown version.")
        end = 3 + int.from_bytes(encrypted[1:3], "big")
        wrapped, nonce, ciphertext = encrypted[3:end], encrypted[end : end + _NONCE], encrypted[end + _NONCE :]
        try:
            return (await self._unwrapped(wrapped)).decrypt(nonce, ciphertext, about.encode())
        except (InvalidTag, ValueError) as error:
            raise StoreCorrupt("Encrypted data cannot be decrypted: it was changed or moved.") from error

    async def _data_key(self) -> _DataKey:
        async with self._lock(_NEW):
            now = self._clock.now()
            if self._current is None or now - self._current.made >= KEY_LIFE:
                made = await self._kms(
                    "generate_data_key", KeyId=self._key, KeySpec="AES_256", EncryptionContext=CONTEXT
                )
                self._current = _DataKey(made["CiphertextBlob"], _aes(made), now)
                self._remember(self._current.wrapped, self._current.key)
            return self._current

    async def _unwrapped(self, wrapped: bytes) -> "AESGCM":
        if not wrapped:
            raise StoreCorrupt("Encrypted data has no data key.")
        async with self._lock(wrapped):
            known = self._cache.get(wrapped)
            if known is None:
                # Pass KeyId, so that KMS refuses a data key that was encrypted by any other KMS key.
                made = await self._kms("decrypt", KeyId=self._key, CiphertextBlob=wrapped, EncryptionContext=CONTEXT)
                known = _aes(made)
                self._remember(wrapped, known)
        return known

    def _lock(self, wrapped: bytes) -> asyncio.Lock:
        # Use a lock of its own for each event loop, because a test process runs several loops. The weak dictionary
        # drops unused locks.
        return self._locks.setdefault((id(asyncio.get_running_loop()), wrapped), asyncio.Lock())

    def _remember(self, wrapped: bytes, key: "AESGCM") -> None:
        while len(self._cache) >= CACHED_KEYS:
            del self._cache[next(iter(self._cache))]
        self._cache[wrapped] = key
