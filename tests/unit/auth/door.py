"""The layer in front alone, at a clock that only moves when it is told to: it answers with who was admitted."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.auth.declaration import Requirement, Scheme, Security
from aion_core.auth.verifiers import build_guards
from aion_core.memory.table import MemoryTable
from aion_core.ports import Clock
from aion_core.stores.api_keys import TableApiKeys
from aion_core.web.middleware import AuthenticationMiddleware
from aion_core.web.request_context import CALLER
from tests.support.asgi import ask


class Door:
    """Two agents, `one` at the root and `two`, that ask for the same."""

    def __init__(
        self,
        clock: Clock,
        *require: Requirement,
        users: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        **schemes: Scheme,
    ):
        """`users`: the users of HTTP Basic, or what reads them."""
        self.keys = TableApiKeys(MemoryTable(clock), clock)
        asked = require or tuple({name: frozenset[str]()} for name in schemes)
        security = Security(schemes, asked)
        read = users if callable(users) else lambda: dict(users or {})
        guards = build_guards({"one": security, "two": security}, clock=clock, api_keys=lambda: self.keys, users=read)
        self.app: ASGIApp = AuthenticationMiddleware(_tells_who, guards, at_root="one", public=())

    async def ask(
        self, *headers: tuple[str, str], path: str = "/", event: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """What a request with these headers is answered."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            given = [(name.lower().encode(), value.encode()) for name, value in headers]
            more = {"aws.event": event} if event is not None else {}
            await self.app({**scope, "headers": [*scope["headers"], *given], **more}, receive, send)

        return await ask(app, "GET", path)

    async def bearer(self, token: str, path: str = "/") -> httpx.Response:
        """What a request with the token is answered."""
        return await self.ask(("Authorization", f"Bearer {token}"), path=path)


async def _tells_who(scope: Scope, receive: Receive, send: Send) -> None:
    caller = scope[CALLER]
    who = {"owner": caller.principal.owner, "subject": caller.principal.subject, "agent": caller.agent_id}
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(who).encode()})
