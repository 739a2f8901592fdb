"""HTTP Basic: names and passwords, of which only argon2 hashes are kept (R6).

A hash takes long on purpose, so each credential is hashed once in a process; afterwards it is known by a keyed hash that
means nothing outside of this process.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from aion_core.auth.decision import Unproven
from aion_core.auth.presented import Presented
from aion_core.auth.principal import BASIC_ISSUER, Principal
from aion_core.errors import ConfigurationError

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 1000
AT_ONCE = 2
"""How many passwords are hashed at once: each takes a processor, and 64 MB."""


def users_in(text: str, source: str) -> dict[str, str]:
    """Return the hashes by the users' names; raises ConfigurationError that names where the text is from."""
    try:
        users = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{source} is no JSON; it has to hold an object of names and argon2 hashes."
        ) from error
    if not isinstance(users, dict) or not all(
        isinstance(hashed, str) and hashed.startswith("$argon2") and name and ":" not in name
        for name, hashed in users.items()
    ):
        raise ConfigurationError(f"{source} has to hold an object of names and argon2 hashes: see `aion user hash`.")
    return users


def hash_password(password: str) -> str:
    """Return the hash to keep."""
    return PasswordHasher().hash(password)


class BasicVerifier:
    """Says whose a name and a password are."""

    def __init__(self, users: Callable[[], Mapping[str, str]]) -> None:
        """`users`: reads the hashes, once; it may raise ConfigurationError."""
        self._users = users()
        self._hasher = PasswordHasher()
        # Compared with where there is no such user: it takes as long to find out. Whose it is does not matter then.
        self._nobodys = next(iter(self._users.values()), "")
        self._seal = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._hashing = asyncio.Semaphore(AT_ONCE)

    async def verify(self, presented: Presented) -> Principal | Unproven:
        """Return the user, or why there is none."""
        if not presented.speaks("Basic"):
            return Unproven.MISSING
        given = presented.name_and_password()
        if given is None:
            return Unproven.INVALID
        name, password = given
        credential = hmac.digest(self._seal, json.dumps(given).encode(), hashlib.sha256)
        if credential not in self._known:
            async with self._hashing:
                is_theirs = await asyncio.to_thread(self._matches, self._users.get(name, self._nobodys), password)
            if not is_theirs or name not in self._users:
                return Unproven.INVALID
            self._known[credential] = None
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        return Principal(BASIC_ISSUER, name)

    def _matches(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (Argon2Error, InvalidHashError):
            return False
