"""HTTP Basic (RFC 7617).

Computing an argon2 hash is slow on purpose. A process therefore computes it once for each pair of name and password,
and recognises the pair later by a fast keyed hash. It remembers wrong pairs too, and limits the number of wrong pairs
that it hashes in a minute, so that password guessing does not use up the processor time of other callers.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from datetime import timedelta
from typing import Literal

from aion_core import log
from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import BASIC_ISSUER, Principal
from aion_core.auth.scheme import REALM, AuthFailure, Scheme, VerifierResources, http_scheme
from aion_core.auth.schemes.basic_users import BasicUsers, UsersUnavailable
from aion_core.clock import Clock
from aion_core.protocol.types import SecurityScheme

MAX_REMEMBERED = 1000
CONCURRENT_HASHES = 2
"""Maximum number of passwords hashed at once. Computing one hash occupies a processor and 64 MB of memory."""
WRONG_PER_MINUTE = 30
"""Maximum number of wrong passwords hashed by a process per minute. Above it, new credentials get status 429."""


class BasicScheme(Scheme):
    """Scheme of HTTP Basic. A secret contains the user names and the hashes of their passwords."""

    type: Literal["basic"] = "basic"

    def on_card(self) -> SecurityScheme:
        """Return the scheme's entry for the agent card."""
        return http_scheme("Basic", self.description)

    def challenge(self, *, is_invalid: bool = False, missing_scopes: frozenset[str] | None = None) -> str:
        """Return the challenge of HTTP Basic for `WWW-Authenticate`."""
        return f'Basic realm="{REALM}", charset="UTF-8"'

    def verifier(self, resources: VerifierResources) -> "BasicVerifier":
        """Read the deployment's users and return a verifier for them. Raises ConfigurationError."""
        return BasicVerifier(BasicUsers(resources.basic_users, resources.clock), resources.clock)


class BasicVerifier:
    """Verifier for the names and passwords of HTTP Basic."""

    def __init__(self, users: BasicUsers, clock: Clock) -> None:
        from argon2 import PasswordHasher

        self._users, self._budget = users, _AttemptBudget(clock)
        self._hasher = PasswordHasher()
        self._process_key = secrets.token_bytes(32)
        self._right, self._wrong = _VerifiedCredentials(), _VerifiedCredentials()
        self._hashing = asyncio.Semaphore(CONCURRENT_HASHES)
        self._in_progress: dict[tuple[bytes, str], asyncio.Task[bool]] = {}

    async def verify(self, credentials: RequestCredentials) -> Principal | AuthFailure:
        """Return the principal of the user, or the reason for the failure."""
        if not credentials.has_authorization("Basic"):
            return AuthFailure.MISSING
        pair = _name_and_password(credentials)
        if pair is None:
            return AuthFailure.INVALID
        name, password = pair
        log.keep_out(password, f"{name}:{password}")
        found = await self._verify(name, password)
        if isinstance(found, Principal):
            log.keep_out(password, even_words=True)
        return found

    async def _verify(self, name: str, password: str) -> Principal | AuthFailure:
        try:
            hashes = await self._users.hashes()
        except UsersUnavailable:
            return AuthFailure.UNAVAILABLE
        # For an unknown name, compare with another user's hash and ignore the result, so that the response time does
        # not reveal whether a name exists.
        hashed = hashes.get(name) or next(iter(hashes.values()), "")
        credential = hmac.digest(self._process_key, json.dumps([name, password]).encode(), hashlib.sha256)
        if name in hashes and self._right.contains(credential, hashed):
            return Principal(BASIC_ISSUER, name)
        if self._wrong.contains(credential, hashed):
            return AuthFailure.INVALID
        comparing = self._in_progress.get((credential, hashed))
        if comparing is None:
            if not self._budget.take():
                return AuthFailure.TOO_MANY_ATTEMPTS
            comparing = asyncio.create_task(self._compare(credential, hashed, password, is_user=name in hashes))
            self._in_progress[credential, hashed] = comparing
        # Do not cancel the comparison together with this request, because other requests may wait for its result.
        return Principal(BASIC_ISSUER, name) if await asyncio.shield(comparing) else AuthFailure.INVALID

    async def _compare(self, credential: bytes, hashed: str, password: str, *, is_user: bool) -> bool:
        """Compare a password with a stored hash and remember the result. Return True for a known user's password."""
        try:
            async with self._hashing:
                is_right = await asyncio.to_thread(self._matches, hashed, password) and is_user
            if is_right:
                self._budget.give_back()
            (self._right if is_right else self._wrong).add(credential, hashed)
            return is_right
        finally:
            del self._in_progress[credential, hashed]

    def _matches(self, hashed: str, password: str) -> bool:
        from argon2.exceptions import Argon2Error, InvalidHashError

        try:
            return self._hasher.verify(hashed, password)
        except (Argon2Error, InvalidHashError):
            return False


def _name_and_password(credentials: RequestCredentials) -> tuple[str, str] | None:
    """Return the user name and password from the `Authorization` header; None if it is unreadable."""
    try:
        decoded = base64.b64decode(credentials.authorization("Basic"), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    name, colon, password = decoded.partition(":")
    return (name, password) if colon and name else None


class _VerifiedCredentials:
    """Cache of recently compared credentials, with their password hashes. A changed hash invalidates a result."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[bytes, str] = OrderedDict()

    def contains(self, credential: bytes, hashed: str) -> bool:
        return self._hashes.get(credential) == hashed

    def add(self, credential: bytes, hashed: str) -> None:
        self._hashes[credential] = hashed
        if len(self._hashes) > MAX_REMEMBERED:
            self._hashes.popitem(last=False)


class _AttemptBudget:
    """Token bucket of password attempts. It holds `WRONG_PER_MINUTE` attempts and refills evenly within a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step = timedelta(minutes=1) / WRONG_PER_MINUTE
        self._full_at = clock.now()

    def take(self) -> bool:
        now = self._clock.now()
        full_at = max(self._full_at, now) + self._step
        if full_at - now > timedelta(minutes=1):
            return False
        self._full_at = full_at
        return True

    def give_back(self) -> None:
        self._full_at -= self._step
