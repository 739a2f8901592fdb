"""Remote agents by their names in aion.yaml, or by URL. A name's credentials go only to the origin of its URL.

The SDK's client and httpx are imported at the first call, because most turns make none.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aion_core.delegation.remote import Remote
from aion_core.errors import ConfigurationError
from aion_core.protocol.types import AgentCard

if TYPE_CHECKING:
    from aion_core.delegation.callbacks import CallbackRequest
    from aion_core.delegation.card_client import CardClient

CONNECT_SECONDS, READ_SECONDS, WRITE_SECONDS = 5.0, 60.0, 30.0
"""Time limits of a request. A stream of this server, or of the SDK's, has a sign of life at least every 15 s."""


class Remotes:
    """The remote agents of a deployment."""

    def __init__(self, remotes: Mapping[str, Remote] | None = None, *, callback_url: str = "") -> None:
        """`callback_url` is the address of this server's callbacks; "" if remote agents can't call it back."""
        self._remotes, self._callback_url = remotes or {}, callback_url
        self._cards: dict[str, tuple[float, AgentCard]] = {}
        """Cards by URL, each with the time of the monotonic clock until which it is used."""

    def __contains__(self, name: object) -> bool:
        """Return True for a name of aion.yaml."""
        return name in self._remotes

    def resolve(self, name: str) -> Remote:
        """Return the remote agent with this name, or at this URL. Raises ConfigurationError for an unknown name."""
        if (remote := self._remotes.get(name)) is not None:
            return remote
        if urlsplit(name).scheme in ("http", "https"):
            return Remote(name, name)
        known = f" It has {', '.join(sorted(self._remotes))}." if self._remotes else ""
        raise ConfigurationError(
            f"aion.yaml has no remote agent {name!r}.{known} Add it below `remotes`, or give the URL of the agent."
        )

    def callback(self, name: str, client: "CardClient") -> "CallbackRequest | None":
        """Return a new request for a callback of this remote agent; None if it is not asked for callbacks."""
        remote = self.resolve(name)
        if not remote.calls_back or not self._callback_url:
            return None
        from aion_core.delegation.callbacks import CallbackRequest

        return CallbackRequest(client, remote.name, self._callback_url)

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator["CardClient"]:
        """Context manager that yields a client of the remote agent. Raises ConfigurationError."""
        import httpx

        from aion_core.agent_client.documents import http_client
        from aion_core.agent_client.limits import OF_AGENTS
        from aion_core.delegation.card_client import CardClient

        remote = self.resolve(name)
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, write=WRITE_SECONDS)
        auth = remote.auth() if remote.auth is not None else None
        async with http_client(remote.address(), auth, timeout, OF_AGENTS) as http:
            yield CardClient(remote, http, self._cards)
