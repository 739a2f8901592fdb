"""Authentication of requests to a remote agent by a secret in a header."""

import os
from collections.abc import Callable, Generator

import httpx

from aion_core.delegation.remote import missing_variable


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
