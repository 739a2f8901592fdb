"""Users of HTTP Basic with the argon2 hashes of their passwords."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta

from aion_core.clock import Clock
from aion_core.errors import ConfigurationError

logger = logging.getLogger(__name__)

USERS_FRESH = timedelta(minutes=5)
"""Maximum time until a process notices an added, changed or removed user."""
USERS_RETRY = timedelta(seconds=30)
"""Delay between a failed read of the users and the next attempt."""
USERS_STALE_IF_ERROR = timedelta(hours=24)
"""Maximum age of the users in memory while every new read fails."""


class UsersUnavailable(Exception):
    """Error: the users of HTTP Basic cannot be read now, and the users in memory are too old to be trusted."""


class BasicUsers:
    """Users of HTTP Basic and their password hashes. They are read at start, then every few minutes."""

    def __init__(self, read: Callable[[], Mapping[str, str]], clock: Clock) -> None:
        """Read the users with the blocking function `read`. Raises ConfigurationError.

        If a later read fails, the error is only logged.
        """
        self._read, self._clock = read, clock
        self._hashes = read()
        self._read_at = clock.now()
        self._next_read_at = self._read_at + USERS_FRESH

    async def hashes(self) -> Mapping[str, str]:
        """Return the password hashes by user name. Raises UsersUnavailable."""
        now = self._clock.now()
        if now >= self._next_read_at:
            # Set the time of the next read before this read, so that concurrent requests do not read too, but use the
            # users in memory.
            self._next_read_at = now + USERS_RETRY
            try:
                self._hashes = await asyncio.to_thread(self._read)
            except ConfigurationError as error:
                logger.error("The users of HTTP Basic cannot be read again; the earlier users stay: %s", error)
            else:
                self._read_at, self._next_read_at = now, now + USERS_FRESH
        if now - self._read_at > USERS_STALE_IF_ERROR:
            raise UsersUnavailable
        return self._hashes


def parse_users(text: str, source: str) -> dict[str, str]:
    """Parse a JSON text into password hashes by user name. Raises ConfigurationError, which names the text's source."""
    try:
        users = json.loads(text)
    except ValueError:
        # Raise the error without its cause, because the parser's message quotes the secret.
        raise ConfigurationError(
            f"{source} is not JSON; it has to hold an object of names and argon2 hashes."
        ) from None
    if not isinstance(users, dict) or not all(
        isinstance(hashed, str) and hashed.startswith("$argon2") and name and ":" not in name
        for name, hashed in users.items()
    ):
        raise ConfigurationError(f"{source} has to hold an object of names and argon2 hashes: see `aion user hash`.")
    return users


def hash_password(password: str) -> str:
    """Return the argon2 hash of the password."""
    from argon2 import PasswordHasher

    return PasswordHasher().hash(password)
