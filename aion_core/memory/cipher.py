"""A cipher whose key is in this process's memory."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aion_core.errors import StoreCorrupt

_NONCE = 12


class MemoryCipher:
    """`ports.Cipher` by AES-256-GCM."""

    def __init__(self, key: bytes = b"") -> None:
        """Without a `key` a new one is made, which ends with the process."""
        self._key = AESGCM(key or AESGCM.generate_key(256))

    async def encrypt(self, content: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.seal`."""
        nonce = os.urandom(_NONCE)
        return nonce + self._key.encrypt(nonce, content, about.encode())

    async def decrypt(self, encrypted: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.open`."""
        try:
            return self._key.decrypt(encrypted[:_NONCE], encrypted[_NONCE:], about.encode())
        except (InvalidTag, ValueError) as error:
            raise StoreCorrupt("What was sealed cannot be read: it was changed, or is of another thing.") from error
