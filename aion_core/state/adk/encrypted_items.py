"""Encrypted items of ADK's sessions.

All content is encrypted, not only known credentials: a token may be in an event's response to a credential request, in
state under any name, or in a tool's response.
"""

import asyncio
import zlib
from collections.abc import Iterable

from aion_core.errors import StoreCorrupt
from aion_core.table.blobs import Blobs
from aion_core.table.cipher import Cipher
from aion_core.table.item import Item, Key, key_of
from aion_core.table.payloads import Payloads, StoredPayload, compress

_CONTENT = "content"
"""Attribute with the encrypted content."""


class EncryptedItems:
    """Encryption of items' contents. Each ciphertext is valid only for the key of its item."""

    def __init__(self, blobs: Blobs, cipher: Cipher) -> None:
        self._cipher, self._blobs, self._payloads = cipher, blobs, Payloads(blobs)

    async def encrypted(self, key: Key, content: bytes, *, folder: str) -> Item:
        """Encrypt the content into an attribute of the item with this key. Other items cannot use the attribute."""
        body = await self._cipher.encrypt(compress(content, self._blobs), about=_about(key))
        return await self._payloads.attributes({_CONTENT: StoredPayload("encrypted", body)}, folder=folder)

    async def content(self, item: Item) -> bytes:
        """Decrypt the content of an item. Raises StoreCorrupt if the content cannot be read."""
        payload = (await self._payloads.of(item)).get(_CONTENT)
        if payload is None:
            raise StoreCorrupt("An item of a session has no content.")
        return zlib.decompress(await self._cipher.decrypt(payload.body, about=_about(key_of(item))))

    async def contents(self, found: Iterable[Item]) -> list[bytes]:
        """Decrypt the contents of the items. Return them in the same order."""
        return list(await asyncio.gather(*map(self.content, found)))


def _about(key: Key) -> str:
    return f"{key.partition}/{key.sort}"
