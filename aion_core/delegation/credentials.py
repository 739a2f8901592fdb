"""Authentication of requests to a remote agent: the secret in a header, and the only origin that may receive it."""

import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing

import httpx

from aion_core.delegation.remote import missing_variable, origin_of


class SecretHeader(httpx.Auth):
    """Authentication by a header with a secret: the value that an environment variable has at the request."""

    def __init__(self, remote: str, header: str, form: Callable[[str], str], variable: str) -> None:
        """`form` makes the header's value from the secret."""
        self._remote, self._header, self._form, self._variable = remote, header, form, variable

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Add the header. Raises ConfigurationError without a secret."""
        secret = os.environ.get(self._variable)
        if not secret:
            raise missing_variable(self._variable, f"The secret of the remote {self._remote!r}")
        request.headers[self._header] = self._form(secret)
        yield request


class OnlyForOrigin(httpx.Auth):
    """Authentication that is left out for requests to any other origin (scheme, host, port) than that of a URL."""

    def __init__(self, url: str, inner: httpx.Auth) -> None:
        self._origin, self._inner = origin_of(url), inner
        self.requires_request_body = inner.requires_request_body

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Authenticate the request if it goes to the origin."""
        if origin_of(str(request.url)) != self._origin:
            yield request
            return
        async with aclosing(self._inner.async_auth_flow(request)) as flow:
            authenticated = await anext(flow)
            while True:
                response = yield authenticated
                try:
                    authenticated = await flow.asend(response)
                except StopAsyncIteration:
                    return
