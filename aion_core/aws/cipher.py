"""Envelope encryption by KMS, with the promises of `ports.Cipher`.

What is sealed carries its data key, which only KMS can unwrap: `version | length | wrapped key | nonce | ciphertext`.
"""

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aion_core.aws.client import AwsClient
from aion_core.errors import StoreCorrupt
from aion_core.ports import Clock

KEY_LIFE = timedelta(hours=1)
"""How long a process seals with one data key: it asks KMS once an hour, and what leaks with its memory is an hour's."""

KEYS_AT_HAND = 256
"""How many data keys a process remembers that it has had unwrapped."""

CONTEXT = {"application": "aion"}
"""KMS binds each data key to it, and logs it with each use."""

_VERSION, _NONCE, _NEW = b"\x01", 12, b""


@dataclass(frozen=True, slots=True)
class _DataKey:
    wrapped: bytes
    key: AESGCM
    made: datetime


class KMSCipher:
    """`ports.Cipher` under one KMS key."""

    def __init__(self, kms: AwsClient, clock: Clock, *, key: str) -> None:
        """`key` is the KMS key's ARN, id or alias."""
        self._kms, self._clock, self._key = kms, clock, key
        self._mine: _DataKey | None = None
        self._at_hand: dict[bytes, AESGCM] = {}
        self._asking: WeakValueDictionary[tuple[int, bytes], asyncio.Lock] = WeakValueDictionary()
        """Whoever asks KMS for a data key, by that; a session's events are opened all at once, and most under one."""

    async def encrypt(self, content: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.seal`."""
        mine = await self._data_key()
        nonce = os.urandom(_NONCE)
        head = _VERSION + len(mine.wrapped).to_bytes(2, "big") + mine.wrapped
        return head + nonce + mine.key.encrypt(nonce, content, about.encode())

    async def decrypt(self, encrypted: bytes, *, about: str) -> bytes:
        """See `ports.Cipher.open`."""
        if encrypted[:1] != _VERSION:
            raise StoreCorrupt("What was sealed is of a version that cannot be read.")
        end = 3 + int.from_bytes(encrypted[1:3], "big")
        wrapped, nonce, ciphertext = encrypted[3:end], encrypted[end : end + _NONCE], encrypted[end + _NONCE :]
        try:
            return (await self._unwrapped(wrapped)).decrypt(nonce, ciphertext, about.encode())
        except (InvalidTag, ValueError) as error:
            raise StoreCorrupt("What was sealed cannot be read: it was changed, or is of another thing.") from error

    async def _data_key(self) -> _DataKey:
        async with self._one_at_a_time(_NEW):
            now = self._clock.now()
            if self._mine is None or now - self._mine.made >= KEY_LIFE:
                made = await self._kms(
                    "generate_data_key", KeyId=self._key, KeySpec="AES_256", EncryptionContext=CONTEXT
                )
                self._mine = _DataKey(made["CiphertextBlob"], AESGCM(made["Plaintext"]), now)
                self._remember(self._mine.wrapped, self._mine.key)
            return self._mine

    async def _unwrapped(self, wrapped: bytes) -> AESGCM:
        if not wrapped:
            raise StoreCorrupt("What was sealed names no key.")
        async with self._one_at_a_time(wrapped):
            known = self._at_hand.get(wrapped)
            if known is None:
                # The key is named: one of another account that somebody has put there is not even tried.
                made = await self._kms("decrypt", KeyId=self._key, CiphertextBlob=wrapped, EncryptionContext=CONTEXT)
                known = AESGCM(made["Plaintext"])
                self._remember(wrapped, known)
        return known

    def _one_at_a_time(self, wrapped: bytes) -> asyncio.Lock:
        # Held by those who wait for it, and by nobody else. One for each event loop: a process that stands in for several
        # invocations at once has several.
        asked = id(asyncio.get_running_loop()), wrapped
        lock = self._asking.get(asked)
        if lock is None:
            lock = self._asking[asked] = asyncio.Lock()
        return lock

    def _remember(self, wrapped: bytes, key: AESGCM) -> None:
        while len(self._at_hand) >= KEYS_AT_HAND:
            del self._at_hand[next(iter(self._at_hand))]
        self._at_hand[wrapped] = key
