"""JSON Web Key Sets: fetch and cache an issuer's public keys, and limit the requests to the issuer."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from aion_core.clock import Clock

logger = logging.getLogger(__name__)

FRESH = timedelta(minutes=10)
"""Age of the cached keys from which a request starts a read of the keys, without waiting for it."""
STALE_WHILE_REVALIDATE = timedelta(hours=1)
"""Age of the cached keys from which a request waits until they are read again."""
STALE_IF_ERROR = timedelta(hours=24)
"""Maximum age of the cached keys while every new read fails."""
BETWEEN_READS = timedelta(seconds=30)
"""Minimum time between two reads of the keys, for an unknown key or after a failed read."""
BETWEEN_COLD_READS = timedelta(seconds=2)
"""Minimum time between two reads of the keys before the first successful one."""

FETCH_SECONDS = 3.0
"""Time limit of a whole fetch. A slow issuer could send one byte at a time forever."""
MAX_BYTES = 512 * 1024

Fetch = Callable[[str], Awaitable[Any]]
"""Function from a URL to its JSON document. It raises DocumentUnreadable."""


class DocumentUnreadable(Exception):
    """Error: a document of the issuer cannot be read now. The text gives the reason for the log."""


class KeysUnavailable(Exception):
    """Error: an issuer's keys are unknown or were read too long ago, and cannot be read now."""


class IssuerKeys:
    """Cache of one issuer's public keys, by key id. Concurrent requests wait for the same read of the keys."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Clock, *, keys_url: str, discovery_url: str) -> None:
        """Create an empty cache. `issuer` is the issuer's URL, as in the claim `iss` of its tokens.

        The keys are read at `keys_url`, or if it is "", where the discovery document at `discovery_url` says.
        """
        self._issuer, self._fetch, self._clock = issuer, fetch, clock
        self._keys_url, self._discovery_url = keys_url, discovery_url
        self._keys: dict[str, PyJWK] = {}
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._reading: asyncio.Task[None] | None = None

    async def key(self, key_id: str) -> PyJWK | None:
        """Return the public key with this id, or None for an unknown id. Raises KeysUnavailable.

        A cached key is returned at once, unless the last successful read was over an hour ago.
        """
        if key_id in self._keys and self._age() <= STALE_WHILE_REVALIDATE:
            if self._age() > FRESH:
                self._read_unless_recent()
            return self._keys[key_id]
        # Read the keys again, because the issuer may have added or withdrawn this key.
        if reading := self._read_unless_recent():
            # Do not cancel the read together with this request, because other requests may wait for it.
            await asyncio.shield(reading)
        if self._age() > STALE_IF_ERROR:
            raise KeysUnavailable
        return self._keys.get(key_id)

    def _age(self) -> timedelta:
        return timedelta.max if self._read_at is None else self._clock.now() - self._read_at

    def _read_unless_recent(self) -> asyncio.Task[None] | None:
        """Return the running read of the keys, or start one; None if the last read ended too recently for another."""
        if self._reading is None or self._reading.done():
            # Pause between reads. Otherwise requests with invented key ids would send many requests to the issuer, and
            # delay callers with valid tokens.
            pause = BETWEEN_COLD_READS if self._read_at is None else BETWEEN_READS
            if self._tried_at is not None and self._clock.now() - self._tried_at < pause:
                return None
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        try:
            self._keys = _by_id(await self._fetch(await self._url()))
        except DocumentUnreadable as error:
            logger.log(self._failure_level(), "The keys of %s cannot be read: %s", self._issuer, error)
        except Exception:
            told = "The keys of %s cannot be read: unexpected error."
            logger.log(self._failure_level(), told, self._issuer, exc_info=True)
        else:
            self._read_at = self._clock.now()
        finally:
            # Drop the reference to the asyncio task, because the task keeps its request's context variables alive, with
            # the caller's credentials.
            self._tried_at, self._reading = self._clock.now(), None

    def _failure_level(self) -> int:
        # Log only a warning while the cached keys are recent: Lambda freezes the process between invocations, so a
        # background read may time out without a fault of the issuer.
        return logging.WARNING if self._age() <= STALE_WHILE_REVALIDATE else logging.ERROR

    async def _url(self) -> str:
        if self._keys_url:
            return self._keys_url
        discovery = await self._fetch(self._discovery_url)
        if not isinstance(discovery, dict) or discovery.get("issuer") != self._issuer:
            raise DocumentUnreadable("its discovery document is another issuer's")
        url = discovery.get("jwks_uri")
        if not isinstance(url, str) or not url.startswith(self._issuer.partition("://")[0] + "://"):
            raise DocumentUnreadable("its discovery document names no keys")
        return url


def _by_id(document: Any) -> dict[str, PyJWK]:
    """Return the signature keys of a JWK set by key id. Raises DocumentUnreadable if the document is not a JWK set."""
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
            continue  # Skip this key, because PyJWT does not support its type. The other keys of the set remain usable.
        if isinstance(members.get("kid"), str):
            keys[members["kid"]] = key
    return keys


async def fetch(url: str, seconds: float = FETCH_SECONDS) -> Any:
    """Fetch a small JSON document, without following redirects. Raises DocumentUnreadable."""
    try:
        async with asyncio.timeout(seconds):
            content = await _download(url, seconds)
    except TimeoutError as error:
        raise DocumentUnreadable(f"the answer takes longer than {seconds:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DocumentUnreadable(type(error).__name__) from error
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DocumentUnreadable("the document is no JSON") from error


async def _download(url: str, seconds: float) -> bytes:
    # Create a client for each fetch, because an HTTP client works only on the event loop of its first request. Fetches
    # are rare.
    async with (
        httpx.AsyncClient(timeout=seconds, follow_redirects=False, trust_env=False) as client,
        client.stream("GET", url, headers={"Accept": "application/json", "Accept-Encoding": "identity"}) as response,
    ):
        if response.status_code != 200:
            raise DocumentUnreadable(f"the answer is {response.status_code}")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            # Refuse compression, because MAX_BYTES limits only the received bytes, not the uncompressed document.
            raise DocumentUnreadable("the document is compressed")
        content = b""
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > MAX_BYTES:
                raise DocumentUnreadable("the document is too large")
    return content
