"""HTTP Basic: names and passwords, of which only argon2 hashes are kept (R6).

A hash takes long on purpose, so each credential is hashed once in a process; afterwards it is known by a keyed hash that
means nothing outside of this process. One that was wrong is known too, and of wrong ones only so many are hashed in a
minute: who tries passwords must not keep the processor from everybody else.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from datetime import timedelta

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from aion_core.auth.decision import Unproven
from aion_core.auth.presented import Presented
from aion_core.auth.principal import BASIC_ISSUER, Principal
from aion_core.auth.users import Users, UsersUnavailable
from aion_core.ports import Clock

MAX_REMEMBERED = 1000
AT_ONCE = 2
"""How many passwords are hashed at once: each takes a processor, and 64 MB."""
WRONG_A_MINUTE = 30
"""How many wrong ones a process hashes in a minute; then whoever it has not seen before is told to come back."""


def hash_password(password: str) -> str:
    """Return the hash to keep."""
    return PasswordHasher().hash(password)


class BasicVerifier:
    """Says whose a name and a password are."""

    def __init__(self, users: Users, clock: Clock) -> None:
        self._users, self._tries = users, _Tries(clock)
        self._hasher = PasswordHasher()
        self._seal = secrets.token_bytes(32)
        self._right, self._wrong = _Remembered(), _Remembered()
        self._hashing = asyncio.Semaphore(AT_ONCE)
        self._under_way: dict[tuple[bytes, str], asyncio.Task[bool]] = {}

    async def verify(self, presented: Presented) -> Principal | Unproven:
        """Return the user, or why there is none."""
        if not presented.speaks("Basic"):
            return Unproven.MISSING
        given = presented.name_and_password()
        if given is None:
            return Unproven.INVALID
        name, password = given
        try:
            hashes = await self._users.hashes()
        except UsersUnavailable:
            return Unproven.UNKNOWN
        # Where there is no such user another's is compared with: it takes as long to find out. Whose it is does not
        # matter then.
        hashed = hashes.get(name) or next(iter(hashes.values()), "")
        credential = hmac.digest(self._seal, json.dumps(given).encode(), hashlib.sha256)
        if name in hashes and self._right.holds(credential, hashed):
            return Principal(BASIC_ISSUER, name)
        if self._wrong.holds(credential, hashed):
            return Unproven.INVALID
        comparing = self._under_way.get((credential, hashed))
        if comparing is None:
            if not self._tries.take():
                return Unproven.TOO_MANY
            comparing = asyncio.create_task(self._compare(credential, hashed, password, is_user=name in hashes))
            self._under_way[credential, hashed] = comparing
        # Shielded: a request that is given up takes nobody else's answer along.
        return Principal(BASIC_ISSUER, name) if await asyncio.shield(comparing) else Unproven.INVALID

    async def _compare(self, credential: bytes, hashed: str, password: str, *, is_user: bool) -> bool:
        """Return whether it is a user's password, and know it from now on."""
        try:
            async with self._hashing:
                is_theirs = await asyncio.to_thread(self._matches, hashed, password) and is_user
            if is_theirs:
                self._tries.give_back()
            (self._right if is_theirs else self._wrong).add(credential, hashed)
            return is_theirs
        finally:
            del self._under_way[credential, hashed]

    def _matches(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (Argon2Error, InvalidHashError):
            return False


class _Remembered:
    """Credentials that were compared, each with the hash it was compared with: with another it is not known."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[bytes, str] = OrderedDict()

    def holds(self, credential: bytes, hashed: str) -> bool:
        return self._hashes.get(credential) == hashed

    def add(self, credential: bytes, hashed: str) -> None:
        self._hashes[credential] = hashed
        if len(self._hashes) > MAX_REMEMBERED:
            self._hashes.popitem(last=False)


class _Tries:
    """As many tries as a minute has, which fill evenly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step = timedelta(minutes=1) / WRONG_A_MINUTE
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
