"""API keys: creation, storage as hashes, verification.

A key consists of `aion_`, an id for the lookup, and 256 random bits. The store contains only the SHA-256 of the whole
key. A key belongs to a principal. If a key is replaced, the principal still owns its tasks.
"""

import base64
import hashlib
import hmac
import re
import secrets
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from a2a.types import a2a_pb2 as pb
from msgspec import Struct
from pydantic import AfterValidator, StringConstraints

from aion_core import log
from aion_core.auth.api_keys import ApiKeys, KeyRecord
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.auth.scheme import REALM, AuthFailure, Scheme, VerifierResources
from aion_core.protocol.types import SecurityScheme

HEADER = r"^[A-Za-z][A-Za-z0-9-]{0,63}$"
_RESERVED_HEADERS = frozenset(
    {"authorization", "cookie", "host", "content-type", "content-length", "accept", "user-agent", "a2a-version"}
)

SECRET_BYTES = 32
_ID_BYTES = 10
_KEY = re.compile(r"aion_([a-z2-7]{16})_[A-Za-z0-9_-]{43}")

_UNKNOWN_KEY_HASH = hashlib.sha256(b"").hexdigest()
"""Hash to compare with if a key's id is unknown, so that the response time does not reveal whether a key id exists."""


def _key_header(name: str) -> str:
    if name.lower() in _RESERVED_HEADERS or name.lower().startswith(("x-amz", "x-forwarded", "a2a-", "x-a2a-")):
        raise ValueError(f"{name} has another meaning; X-API-Key is usual")
    return name


class ApiKeyScheme(Scheme):
    """Scheme of API keys. `aion key create` creates a key, and clients send it in a header of its own."""

    has_scopes: ClassVar[bool] = True
    in_authorization_header: ClassVar[bool] = False

    type: Literal["api-key"] = "api-key"
    header: Annotated[str, StringConstraints(pattern=HEADER), AfterValidator(_key_header)] = "X-API-Key"
    """Request header with the key."""

    @property
    def request_headers(self) -> tuple[str, ...]:
        """Return the name of the key's header."""
        return (self.header,)

    def on_card(self) -> SecurityScheme:
        """Return the scheme's entry for the agent card."""
        return SecurityScheme(
            api_key_security_scheme=pb.APIKeySecurityScheme(
                location="header", name=self.header, description=self.description or None
            )
        )

    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        """Return the challenge for `WWW-Authenticate`, which names the request header for the key."""
        return f'ApiKey realm="{REALM}", header="{self.header}"'

    def verifier(self, resources: VerifierResources) -> "ApiKeyVerifier":
        """Return a verifier for the API keys in the store."""
        return ApiKeyVerifier(self, resources.api_keys())


class NewApiKey(Struct, frozen=True):
    """New API key: its text, to be shown once and not stored, and its record for the store."""

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
) -> NewApiKey:
    """Generate a random API key for the principal. The caller stores its record."""
    key_id = base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode().lower()
    text = f"aion_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    record = KeyRecord(key_id, _hash(text), principal, now, text[-4:], agents, scopes, tenant, expires)
    return NewApiKey(text, record)


class ApiKeyVerifier:
    """Verifier for the API key in a request's header."""

    def __init__(self, scheme: ApiKeyScheme, keys: ApiKeys) -> None:
        self._header, self._keys = scheme.header, keys

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        """Return the principal of the API key, or the reason for the failure. Raises StoreError."""
        if not credentials.has_header(self._header):
            return AuthFailure.MISSING
        # Tell the log filter to redact the key, because the filter does not recognise a header with a configured name.
        log.keep_out(*credentials.values(self._header))
        text = credentials.header(self._header)
        match = _KEY.fullmatch(text)
        record = await self._keys.find(match[1]) if match else None
        if not hmac.compare_digest(_hash(text), record.sha256 if record else _UNKNOWN_KEY_HASH) or record is None:
            return AuthFailure.INVALID
        return Principal(API_KEY_ISSUER, record.principal, record.tenant, record.scopes, record.agents)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
