"""The layer behind the authentication that counts a caller's requests, and refuses those that are too many (R97).

It decides before a body is read. What is public is not counted: whoever reads it has not said who they are.
"""

import logging
import math
from collections.abc import Callable, Iterable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.errors import AionError, StoreUnavailable, TooManyRequests
from aion_core.ports import RateLimits
from aion_core.protocol.errors import to_wire
from aion_core.web.auth import CALLER, route_path
from aion_core.web.calls import owner_of

logger = logging.getLogger(__name__)

Refuse = Callable[[str, Exception], Response]
"""Returns the refusal of a request to the path, as the binding has it whose path it is."""


class RateLimited:
    """Lets as many requests of each caller through as a minute has."""

    def __init__(
        self, app: ASGIApp, counts: RateLimits, *, per_minute: int, public: Iterable[str], refuse: Refuse
    ) -> None:
        self._app, self._counts, self._per_minute, self._refuse = app, counts, per_minute, refuse
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse it."""
        if scope["type"] != "http" or route_path(scope) in self._public:
            await self._app(scope, receive, send)
            return
        try:
            await self._take(owner_of(scope.get(CALLER)))
        except AionError as error:
            if not isinstance(error, TooManyRequests | StoreUnavailable):
                logger.exception("A request could not be counted.")
            response = self._refuse(route_path(scope), to_wire(error))
            response.headers["Cache-Control"] = "no-store"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _take(self, owner: str) -> None:
        wait = await self._counts.take(owner, per_minute=self._per_minute)
        if wait > 0:
            seconds = math.ceil(wait)
            raise TooManyRequests(
                f"You may send {self._per_minute} requests a minute. Try again in {seconds} s.", seconds=seconds
            )
