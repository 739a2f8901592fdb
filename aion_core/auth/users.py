"""The users of HTTP Basic, by their names: argon2 hashes of their passwords, read at start and again every few minutes."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta

from aion_core.errors import ConfigurationError
from aion_core.ports import Clock

logger = logging.getLogger(__name__)

FRESH = timedelta(minutes=5)
"""How long it takes at the most until a user who was added, changed or taken away is so everywhere."""
BETWEEN_TRIES = timedelta(seconds=30)
"""How long it is until they are read once more, after they could not be."""
STALE_IF_ERROR = timedelta(hours=24)
"""How long those that were read go on to be users while they cannot be read again."""


class UsersUnavailable(Exception):
    """Nobody knows any more who the users are."""


class Users:
    """Who they are now, without a new deployment."""

    def __init__(self, read: Callable[[], Mapping[str, str]], clock: Clock) -> None:
        """`read`: blocking; at start it may raise ConfigurationError, later that is logged and the users stay."""
        self._read, self._clock = read, clock
        self._hashes = read()
        self._read_at = clock.now()
        self._again_at = self._read_at + FRESH

    async def hashes(self) -> Mapping[str, str]:
        """Return the hashes by the users' names; raises UsersUnavailable."""
        now = self._clock.now()
        if now >= self._again_at:
            # Whoever comes meanwhile goes on with those that are there.
            self._again_at = now + BETWEEN_TRIES
            try:
                self._hashes = await asyncio.to_thread(self._read)
            except ConfigurationError as error:
                logger.error("The users of HTTP Basic stay as they were read last: %s", error)
            else:
                self._read_at, self._again_at = now, now + FRESH
        if now - self._read_at > STALE_IF_ERROR:
            raise UsersUnavailable
        return self._hashes


def users_in(text: str, source: str) -> dict[str, str]:
    """Return the hashes by the users' names; raises ConfigurationError that names where the text is from."""
    try:
        users = json.loads(text)
    except ValueError:
        # Without what went wrong, which holds the text.
        raise ConfigurationError(f"{source} is no JSON; it has to hold an object of names and argon2 hashes.") from None
    if not isinstance(users, dict) or not all(
        isinstance(hashed, str) and hashed.startswith("$argon2") and name and ":" not in name
        for name, hashed in users.items()
    ):
        raise ConfigurationError(f"{source} has to hold an object of names and argon2 hashes: see `aion user hash`.")
    return users
