"""API keys: how they are made, kept as hashes, and known again (R6).

A key is `aion_`, an id by which it is found, and 256 bits of chance; only the SHA-256 of the whole is kept. It is a
principal's: who replaces one key of theirs by another goes on to own their tasks.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime

from aion_core.auth.decision import Unproven
from aion_core.auth.declaration import ApiKey
from aion_core.auth.presented import Presented
from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.ports import ApiKeys, KeyRecord

SECRET_BYTES = 32
_ID_BYTES = 10
_KEY = re.compile(r"aion_([a-z2-7]{16})_[A-Za-z0-9_-]{43}")

_NOBODYS = hashlib.sha256(b"").hexdigest()
"""Compared with where there is no such key, so that it takes as long as where there is one."""


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A new key; this is the one time that its text is seen."""

    text: str
    record: KeyRecord


def make_key(
    principal: str,
    *,
    now: datetime,
    agents: frozenset[str] | None = None,
    scopes: frozenset[str] = frozenset(),
    tenant: str = "",
    expires: datetime | None = None,
) -> MadeKey:
    """Return a new key of the principal."""
    key_id = base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode().lower()
    text = f"aion_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    record = KeyRecord(key_id, _hash(text), principal, now, text[-4:], agents, scopes, tenant, expires)
    return MadeKey(text, record)


class ApiKeyVerifier:
    """Says whose a key is."""

    def __init__(self, scheme: ApiKey, keys: ApiKeys) -> None:
        self._header, self._keys = scheme.header, keys

    async def verify(self, presented: Presented) -> Principal | Unproven:
        """Return the key's principal, or why there is none; raises StoreError."""
        if not presented.has(self._header):
            return Unproven.MISSING
        text = presented.the(self._header)
        match = _KEY.fullmatch(text)
        record = await self._keys.find(match[1]) if match else None
        if not hmac.compare_digest(_hash(text), record.sha256 if record else _NOBODYS) or record is None:
            return Unproven.INVALID
        return Principal(API_KEY_ISSUER, record.principal, record.tenant, record.scopes, record.agents)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
