"""Cipher with a key in memory."""

import os
from functools import cached_property
from typing import TYPE_CHECKING

from aion_core.errors import StoreCorrupt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


_KEY, _NONCE = 32, 12
"""Lengths of an AES-256 key and of a GCM nonce, in bytes."""


class MemoryCipher:
    """`Cipher` for tests and development, using AES-256-GCM with a key in memory."""

    def __init__(self, key: bytes = b"") -> None:
        """Without a `key`, generate one for the lifetime of this process."""
        self._key = key or os.urandom(_KEY)

    async def encrypt(self, content: bytes, *, about: str) -> bytes:
        """See `Cipher.encrypt`."""
        nonce = os.urandom(_NONCE)
        return nonce + self._aes.encrypt(nonce, content, about.encode())

    async def decrypt(self, encrypted: bytes, *, about: str) -> bytes:
        """See `Cipher.decrypt`."""
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
