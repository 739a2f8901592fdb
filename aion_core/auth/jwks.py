"""An issuer's public keys: read from where its configuration says, kept for a while, and never asked for too often (R5)."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from aion_core.auth.declaration import Jwt
from aion_core.ports import Clock

logger = logging.getLogger(__name__)

FRESH = timedelta(minutes=10)
STALE_IF_ERROR = timedelta(hours=24)
"""How long the keys go on to be used when they cannot be read again."""
BETWEEN_FETCHES = timedelta(seconds=30)
"""How long it is until they are read once more for a key that is not among them, or after they could not be read."""
BETWEEN_COLD_FETCHES = timedelta(seconds=2)
"""The same, where there are none at all and nobody can be let in."""

Fetch = Callable[[str], Awaitable[Any]]
"""Returns the JSON document at a URL; raises Unreadable."""


class Unreadable(Exception):
    """There is no such document at the URL now; the text says why, for the log."""


class KeysUnavailable(Exception):
    """There are no keys, and none can be read now."""


class Keys:
    """The keys of one issuer, by their ids."""

    def __init__(self, scheme: Jwt, fetch: Fetch, clock: Clock) -> None:
        self._scheme, self._fetch, self._clock = scheme, fetch, clock
        self._keys: dict[str, PyJWK] = {}
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._reading = asyncio.Lock()

    async def key(self, key_id: str) -> PyJWK | None:
        """Return the key, None where the issuer has none of this id; raises KeysUnavailable."""
        if self._age() > FRESH:
            await self._read_again(lambda: self._age() > FRESH)
        if self._read_at is None or self._age() > STALE_IF_ERROR:
            raise KeysUnavailable
        if key_id not in self._keys:
            # It may be a new one; whoever makes ids up must not make us ask for each.
            await self._read_again(lambda: key_id not in self._keys)
        return self._keys.get(key_id)

    def _age(self) -> timedelta:
        return timedelta.max if self._read_at is None else self._clock.now() - self._read_at

    async def _read_again(self, wanted: Callable[[], bool]) -> None:
        """Read the keys, if it is still wanted when others have done so, and not so soon after the last time."""
        async with self._reading:
            now = self._clock.now()
            pause = BETWEEN_COLD_FETCHES if self._read_at is None else BETWEEN_FETCHES
            if not wanted() or (self._tried_at is not None and now - self._tried_at < pause):
                return
            self._tried_at = now
            try:
                self._keys = _by_id(await self._fetch(await self._url()))
            except Unreadable as error:
                logger.error("The keys of %s cannot be read: %s", self._scheme.issuer, error)
            else:
                self._read_at = now

    async def _url(self) -> str:
        if self._scheme.jwks_url:
            return self._scheme.jwks_url
        described = await self._fetch(self._scheme.discovery_url)
        if not isinstance(described, dict) or described.get("issuer") != self._scheme.issuer:
            raise Unreadable("its discovery document is another issuer's")
        url = described.get("jwks_uri")
        if not isinstance(url, str) or not url.startswith(self._scheme.issuer.partition("://")[0] + "://"):
            raise Unreadable("its discovery document names no keys")
        return url


def _by_id(document: Any) -> dict[str, PyJWK]:
    """Return the keys of the set that verify signatures and have an id; raises Unreadable where it is no set."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise Unreadable("the document is no JWK set")
    keys: dict[str, PyJWK] = {}
    for members in listed:
        if not isinstance(members, dict) or members.get("use", "sig") != "sig" or members.get("kty") == "oct":
            continue
        try:
            key = PyJWK(members)
        except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
            continue  # of a kind that this library does not know; the others serve
        if isinstance(members.get("kid"), str):
            keys[members["kid"]] = key
    return keys


def parsed(content: bytes) -> Any:
    """Return the JSON document; raises Unreadable."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Unreadable("the document is no JSON") from error
