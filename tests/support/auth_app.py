"""App with nothing but the authentication middleware, on the test's clock: the response names the caller."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.authenticator import build_authenticators
from aion_core.auth.policy import AuthPolicy, Requirement
from aion_core.auth.scheme import Scheme as AuthScheme
from aion_core.auth.scheme import VerifierResources
from aion_core.auth.schemes.bearer import BearerJwtScheme
from aion_core.clock import Clock
from aion_core.local.memory.table import MemoryTable
from aion_core.web.middleware.authentication import AuthenticationMiddleware
from aion_core.web.request.call_context import CALLER
from tests.support.asgi import ask
from tests.support.issuer import AUDIENCE, Issuer


class AuthApp:
    """Two agents with the same policy: `one` at the root, and `two`."""

    def __init__(
        self,
        clock: Clock,
        *require: Requirement,
        users: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        **schemes: AuthScheme,
    ):
        """Build the app; `users` are the users of HTTP Basic, or a function that reads them."""
        self.keys = ApiKeys(MemoryTable(clock), clock)
        policy = AuthPolicy(schemes, require or tuple({name: frozenset[str]()} for name in schemes))
        read = users if callable(users) else lambda: dict(users or {})
        resources = VerifierResources(clock, lambda: self.keys, read)
        authenticators = build_authenticators({"one": policy, "two": policy}, resources)
        self.app: ASGIApp = AuthenticationMiddleware(_respond_with_caller, authenticators, at_root="one", public=())

    async def get(
        self, *headers: tuple[str, str], path: str = "/", event: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """Return the response to a request with these headers."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            given = [(name.lower().encode(), value.encode()) for name, value in headers]
            more = {"aws.event": event} if event is not None else {}
            await self.app({**scope, "headers": [*scope["headers"], *given], **more}, receive, send)

        return await ask(app, "GET", path)

    async def get_with_token(self, token: str, path: str = "/") -> httpx.Response:
        """Return the response to a request with the bearer token."""
        return await self.get(("Authorization", f"Bearer {token}"), path=path)


async def _respond_with_caller(scope: Scope, receive: Receive, send: Send) -> None:
    caller = scope[CALLER]
    who = caller.principal
    body = {"owner": who.owner, "subject": who.subject, "tenant": who.tenant, "agent": caller.agent_id}
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def issuer_scheme(issuer: Issuer, **more: Any) -> BearerJwtScheme:
    """Return the scheme of the issuer's tokens."""
    configured = {"issuer": issuer.url, "audience": (AUDIENCE,), "jwks_url": f"{issuer.url}/jwks.json"}
    return BearerJwtScheme(**configured | more)
