"""Cipher port: encryption with the key of the deployment."""

from typing import Protocol


class Cipher(Protocol):
    """Encryption with the deployment's key. Decryption fails for a changed ciphertext, or one of another item."""

    async def encrypt(self, content: bytes, *, about: str) -> bytes:
        """Return the encrypted content, different at each call. `about` is its place, such as the key of its item.

        May raise StoreUnavailable.
        """
        ...

    async def decrypt(self, encrypted: bytes, *, about: str) -> bytes:
        """Return the decrypted content. `about` must be the value that `encrypt` got.

        Raises StoreCorrupt for changed bytes, another `about` or another deployment's key, and StoreUnavailable if the
        key service is unavailable.
        """
        ...
