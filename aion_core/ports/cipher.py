"""How credentials are kept from whoever may read a store but not use its key."""

from typing import Protocol


class Cipher(Protocol):
    """Seals bytes so that only a holder of the deployment's key can read them, and notices what was moved or changed."""

    async def seal(self, content: bytes, *, about: str) -> bytes:
        """Return the content sealed, each time anew; `about` says what it is of, such as the key of its item.

        May raise StoreUnavailable.
        """
        ...

    async def open(self, sealed: bytes, *, about: str) -> bytes:
        """Return what was sealed about this very thing.

        Raises StoreCorrupt where the bytes were changed, or sealed about another thing or under a key that is not this
        deployment's; StoreUnavailable where the key cannot be asked for just now.
        """
        ...
