"""A cipher whose key lives as long as the process, with the promises of `ports.Cipher`."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aion_core.errors import StoreCorrupt

_NONCE = 12


class MemoryCipher:
    """`ports.Cipher` for one process."""

    def __init__(self) -> None:
        self._key = AESGCM(AESGCM.generate_key(256))

    async def seal(self, content: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.seal`."""
        nonce = os.urandom(_NONCE)
        return nonce + self._key.encrypt(nonce, content, about.encode())

    async def open(self, sealed: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.open`."""
        try:
            return self._key.decrypt(sealed[:_NONCE], sealed[_NONCE:], about.encode())
        except (InvalidTag, ValueError) as error:
            raise StoreCorrupt("What was sealed cannot be read: it was changed, or is of another thing.") from error
