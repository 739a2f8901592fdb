"""JSON Web Key Sets: fetch and cache an issuer's public keys, and limit the rate of requests to the issuer."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from aion_core.auth.schemes.bearer import JwtScheme
from aion_core.ports import Clock

logger = logging.getLogger(__name__)

FRESH = timedelta(minutes=10)
STALE_IF_ERROR = timedelta(hours=24)
"""Maximum age of the cached keys while every new read fails."""
BETWEEN_FETCHES = timedelta(seconds=30)
"""Minimum time between requests to the issuer, for an unknown key or after a failed request."""
BETWEEN_COLD_FETCHES = timedelta(seconds=2)
"""Minimum time between requests to the issuer before the first successful one."""

TIMEOUT_SECONDS = 5.0
MAX_BYTES = 512 * 1024

Fetch = Callable[[str], Awaitable[Any]]
"""Function from a URL to its JSON document. It raises DocumentUnreadable."""


class DocumentUnreadable(Exception):
    """Error for a document of the issuer that cannot be read now. Its text gives the reason for the log."""


class KeysUnavailable(Exception):
    """Error for an issuer's keys that are unknown or too old, and cannot be read now."""


class IssuerKeys:
    """Cache of the public keys of one issuer, by key id."""

    def __init__(self, scheme: JwtScheme, fetch: Fetch, clock: Clock) -> None:
        self._scheme, self._fetch, self._clock = scheme, fetch, clock
        self._keys: dict[str, PyJWK] = {}
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._reading = asyncio.Lock()

    async def key(self, key_id: str) -> PyJWK | None:
        """Return the public key with this id, or None for an unknown id. Raises KeysUnavailable."""
        if self._age() > FRESH:
            await self._refresh(lambda: self._age() > FRESH)
        if self._read_at is None or self._age() > STALE_IF_ERROR:
            raise KeysUnavailable
        if key_id not in self._keys:
            # The key may be new. The rate limit protects the issuer from requests for invented ids.
            await self._refresh(lambda: key_id not in self._keys)
        return self._keys.get(key_id)

    def _age(self) -> timedelta:
        return timedelta.max if self._read_at is None else self._clock.now() - self._read_at

    async def _refresh(self, is_needed: Callable[[], bool]) -> None:
        """Read the issuer's keys, unless a concurrent call has read them or the last attempt is too recent."""
        async with self._reading:
            now = self._clock.now()
            pause = BETWEEN_COLD_FETCHES if self._read_at is None else BETWEEN_FETCHES
            if not is_needed() or (self._tried_at is not None and now - self._tried_at < pause):
                return
            self._tried_at = now
            try:
                self._keys = _by_id(await self._fetch(await self._url()))
            except DocumentUnreadable as error:
                logger.error("The keys of %s cannot be read: %s", self._scheme.issuer, error)
            else:
                self._read_at = now

    async def _url(self) -> str:
        if self._scheme.keys_url:
            return self._scheme.keys_url
        discovery = await self._fetch(self._scheme.discovery_url)
        if not isinstance(discovery, dict) or discovery.get("issuer") != self._scheme.issuer:
            raise DocumentUnreadable("its discovery document is another issuer's")
        url = discovery.get("jwks_uri")
        if not isinstance(url, str) or not url.startswith(self._scheme.issuer.partition("://")[0] + "://"):
            raise DocumentUnreadable("its discovery document names no keys")
        return url


def _by_id(document: Any) -> dict[str, PyJWK]:
    """Return the signature keys of a JWK set, by key id. Raises DocumentUnreadable for another document."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise DocumentUnreadable("the document is no JWK set")
    keys: dict[str, PyJWK] = {}
    for members in listed:
        if not isinstance(members, dict) or members.get("use", "sig") != "sig" or members.get("kty") == "oct":
            continue
        try:
            key = PyJWK(members)
        except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
            continue  # a kind unknown to PyJWT; the other keys are usable
        if isinstance(members.get("kid"), str):
            keys[members["kid"]] = key
    return keys


async def fetch(url: str) -> Any:
    """Fetch a small JSON document without following redirections. Raises DocumentUnreadable."""
    # Create a client for each request: requests are rare, and a client belongs to the event loop of its first request.
    try:
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as response,
        ):
            if response.status_code != 200:
                raise DocumentUnreadable(f"the answer is {response.status_code}")
            content = b""
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MAX_BYTES:
                    raise DocumentUnreadable("the document is too large")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DocumentUnreadable(type(error).__name__) from error
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DocumentUnreadable("the document is no JSON") from error
