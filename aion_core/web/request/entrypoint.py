"""HTTP entry point that received a request."""

import re
from typing import Any
from urllib.parse import unquote

from starlette.types import Scope

from aion_core.auth.credentials import event_text

STREAMED = "aion.streamed"
"""Key in the ASGI scope. Aion's Lambda runtime sets it for a request with a streamed response."""

_DOMAIN = re.compile(r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?")

_THIS_MACHINE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[1-9][0-9]{0,4})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")


def is_buffered(scope: Scope) -> bool:
    """Return True if Lambda buffers the response of this request. Only aion's own runtime loop streams responses."""
    return "aws.context" in scope and STREAMED not in scope


def entrypoint_url_of(scope: Scope) -> str:
    """Return the base URL of the request's API Gateway or Function URL; "" if the event has no valid domain.

    The URL has AWS's domain or a custom domain. AWS writes it into `requestContext`, so the caller cannot change it.
    Headers such as Host are ignored.
    """
    event = scope.get("aws.event")
    if event is None:
        return ""
    domain = event_text(event, "requestContext", "domainName").lower()
    prefix = _stage(event, domain) if event_text(event, "version") == "2.0" else _prefix(event)
    if _THIS_MACHINE.fullmatch(domain):
        # Return an http URL for `sam local`: its domain has a port, and its requestContext.path lacks the prefix.
        return f"http://{domain}{prefix or ''}"
    return f"https://{domain}{prefix}" if prefix is not None and _DOMAIN.fullmatch(domain) else ""


def _stage(event: Any, domain: str) -> str:
    """Return the path prefix of an HTTP API's stage. It is empty for a custom domain and for the stage `$default`."""
    stage = event_text(event, "requestContext", "stage")
    return f"/{stage}" if stage and ".execute-api." in domain and _PREFIX.fullmatch(f"/{stage}") else ""


def _prefix(event: Any) -> str | None:
    """Return the path prefix of a REST API's stage from a Lambda event; None for an invalid path."""
    # Ignore a slash at the end, because a client may omit the slash after the stage.
    whole, path = (unquote(event_text(event, *names)).rstrip("/") for names in (("requestContext", "path"), ("path",)))
    prefix = whole.removesuffix(path)
    return prefix if whole.endswith(path) and _PREFIX.fullmatch(prefix) else None
