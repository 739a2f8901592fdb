"""Encryption of stored credentials."""

from typing import Protocol


class Cipher(Protocol):
    """Authenticated encryption under the deployment's key: a reader of the store alone cannot decrypt."""

    async def encrypt(self, content: bytes, *, about: str) -> bytes:
        """Return the encrypted content, different each time; `about` binds it to its place, such as its item's key.

        May raise StoreUnavailable.
        """
        ...

    async def decrypt(self, encrypted: bytes, *, about: str) -> bytes:
        """Return the content that was encrypted with the same `about`.

        Raises StoreCorrupt if the bytes were changed, moved to another place, or encrypted under another deployment's
        key; raises StoreUnavailable if the key service does not answer.
        """
        ...
