"""Invocation of a function in its container, by `sam local start-lambda`."""

import json
from collections.abc import Callable
from typing import Any

import httpx

_LONGEST = 900 + 60
"""Seconds of an invocation, and of the start of its container."""


class InvocationFailed(Exception):
    """A function raised an exception, or could not be invoked. Its log has the reason."""


def client(port: int) -> httpx.Client:
    """Return a client of `sam local start-lambda` at a port of this machine."""
    return httpx.Client(
        base_url=f"http://127.0.0.1:{port}",
        timeout=httpx.Timeout(_LONGEST, connect=10),
        limits=httpx.Limits(max_connections=None),
        trust_env=False,  # no proxy
    )


def handler(lambdas: httpx.Client, function: str) -> Callable[[Any, Any], Any]:
    """Return a handler for a poller, which invokes the function. It raises InvocationFailed."""

    def invoke(event: Any, _: Any) -> Any:
        try:
            answer = lambdas.post(f"/2015-03-31/functions/{function}/invocations", json=event)
            result = json.loads(answer.content or b"null")
        except (httpx.HTTPError, ValueError) as error:
            raise InvocationFailed(f"{function} could not be invoked: {error!r}") from error
        if answer.is_error or (isinstance(result, dict) and "errorType" in result):
            raise InvocationFailed(f"{function} failed: {answer.text[:500]}")
        return result

    return invoke
