"""Refusals of requests in the format of their path's HTTP+JSON binding."""

import re
from collections.abc import Iterable

from a2a.utils.errors import MethodNotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from aion_core.protocol.errors import MethodNotAllowedError
from aion_core.web.errors import rest_error, v03_rest_error
from aion_core.web.middleware.nosniff import NO_SNIFF
from aion_core.web.middleware.paths import route_path

CARD = "/.well-known/agent-card.json"


def path_not_found(request: Request) -> MethodNotFoundError:
    """Return the error for a request to an unknown path.

    A client that resolves the card's path against an agent's URL without a slash at its end looks in the wrong folder.
    """
    if route_path(request.scope).endswith(CARD):
        routes = (each.path for each in request.app.routes if isinstance(each, Route))
        cards = [path for path in routes if path.startswith("/agents/") and path.endswith(CARD)]
        more = ", …" if len(cards) > MOST_CARDS else ""
        return MethodNotFoundError(
            f"There is no card here. The cards are at {', '.join(cards[:MOST_CARDS])}{more}. Give your client the agent's URL with "
            "a slash at its end."
        )
    return MethodNotFoundError(
        "This path does not exist. /.well-known/manifest.json lists the agents; the card of each agent, at "
        "/.well-known/agent-card.json below its path, has its URLs."
    )


def method_not_allowed(by_method: Iterable[str]) -> MethodNotAllowedError:
    """Return the error for a request with an HTTP method that the path does not accept."""
    return MethodNotAllowedError(f"This path accepts only {', '.join(by_method)}.")


MOST_CARDS = 10
"""Maximum number of cards in an error."""

_V03_PATH = re.compile(r"(/agents/[^/]+)?/v1/")
"""Matches the request paths of v0.3's HTTP+JSON binding."""


def http_refusal(request: Request, error: Exception, http: int | None = None) -> JSONResponse:
    """Return the error response in the format of the path's HTTP+JSON binding. `http` overrides the status."""
    is_v03 = _V03_PATH.match(route_path(request.scope))
    return v03_rest_error(error, http) if is_v03 else rest_error(request, error, http)


async def answer_failure(request: Request, error: Exception) -> Response:
    """Return the response to a request that failed outside of its operation. Starlette sends it around all middleware."""
    response = PlainTextResponse("Internal Server Error", 500)
    response.raw_headers.append(NO_SNIFF)
    return response


async def refuse_path(request: Request, error: Exception) -> Response:
    """Return the error response for a request that matches no route. This is an exception handler of Starlette."""
    allowed = (getattr(error, "headers", None) or {}).get("Allow")
    if not allowed:
        return http_refusal(request, path_not_found(request), getattr(error, "status_code", None))
    response = rest_error(request, method_not_allowed(dict.fromkeys(allowed.split(", "))))
    response.headers["Allow"] = allowed
    return response
