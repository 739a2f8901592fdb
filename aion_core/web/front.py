"""Where AWS's front says that a request reached it, for a server that nobody has told where it is (R18). Pure.

An API Gateway or a Function URL answers at names of its own, or at a domain that is mapped to it, and at no other. At
which, it says in the event's `requestContext`, which no caller writes. Headers, Host among them, are never looked at.
"""

import re
from typing import Any
from urllib.parse import unquote

from starlette.types import Scope

from aion_core.auth.event import text_in

_DOMAIN = re.compile(r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_THIS_MACHINE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[1-9][0-9]{0,4})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")


def front_of(scope: Scope) -> str:
    """Return the base URL at which the front was asked; "" where no front says it, or what it says is no address."""
    event = scope.get("aws.event")
    domain = text_in(event, "requestContext", "domainName").lower()
    prefix = "" if text_in(event, "version") == "2.0" else _prefix(event)
    if _THIS_MACHINE.fullmatch(domain):
        # `sam local`: its domain has a port, its requestContext.path is the route's, and nothing stands before it.
        return f"http://{domain}{prefix or ''}"
    return f"https://{domain}{prefix}" if prefix is not None and _DOMAIN.fullmatch(domain) else ""


def _prefix(event: Any) -> str | None:
    """Return what a REST API's own path has before the one that it asks the function for: its stage; None for no such."""
    # A client may leave out the slash after the stage.
    whole, asked = (unquote(text_in(event, *names)).rstrip("/") for names in (("requestContext", "path"), ("path",)))
    prefix = whole.removesuffix(asked)
    return prefix if whole.endswith(asked) and _PREFIX.fullmatch(prefix) else None
