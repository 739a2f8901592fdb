"""HTTP's part of a REST binding, of either version: paths, methods, what is settled before an operation, refusals."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from a2a.utils.errors import InvalidRequestError, MethodNotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aion_core.protocol.errors import MethodNotAllowedError
from aion_core.protocol.types import AgentCard
from aion_core.web.body import JSON, BodyRefused, StrictRequest
from aion_core.web.errors import A2A_JSON, rest_error
from aion_core.web.request_context import CallContextBuilder, check_required, is_tenant, negotiate, settle_version
from aion_core.web.request_handler import AionRequestHandler

Paths = Mapping[str, Mapping[str, str]]
"""Each path's operations, by HTTP method. The first path that fits is the one that is meant."""


class HttpBinding(ABC):
    """Answers the HTTP+JSON requests to one agent, in one version."""

    version: ClassVar[str]
    paths: ClassVar[Paths]
    reads_card: ClassVar[frozenset[str]]
    """The operations by which a client learns what the agent requires, so that nothing is required of them."""

    def __init__(self, handler: AionRequestHandler, agent_id: str, card: AgentCard) -> None:
        self._handler, self._card = handler, card
        self._builder = CallContextBuilder(agent_id, card, self.version)

    def routes(self, prefix: str) -> list[Route]:
        """Return where the agent answers below the prefix."""
        return [Route(f"{prefix}{path}", _Endpoint(self, by_method)) for path, by_method in self.paths.items()]

    async def answer(self, request: StrictRequest, by_method: Mapping[str, str]) -> Response:
        """Answer a request to a path of these operations."""
        headers: dict[str, str] = {}
        try:
            path = request.path_params
            if not all(path.values()) or not is_tenant(path.get("tenant", "any")):
                raise nothing_here()
            if request.method not in by_method:
                raise not_allowed(by_method)
            operation = by_method[request.method]
            settle_version(request, self.version)
            negotiated = negotiate(request, self._card)
            headers = negotiated.headers(self.version)
            if operation not in self.reads_card:
                check_required(negotiated, self._card, self.version)
            response = await self.operate(operation, request)
        except MethodNotAllowedError as error:
            response = self.refuse(error)
            response.headers["Allow"] = ", ".join(by_method)
        except BodyRefused as refused:
            response = self.refuse(refused.error, refused.http)
        except Exception as error:  # the outermost edge: what nobody expected is logged, and told as such
            response = self.refuse(error)
        response.headers.update(headers)
        # What is said to one caller, a task or an extended card, is no cache's to keep for another.
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response

    @abstractmethod
    async def operate(self, operation: str, request: StrictRequest) -> Response:
        """Answer the operation; raises the protocol's errors."""

    @abstractmethod
    def refuse(self, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error as the version has it; `http` where the status is the transport's."""


class _Endpoint:
    """A path of the binding, for whatever HTTP method."""

    def __init__(self, binding: HttpBinding, by_method: Mapping[str, str]) -> None:
        self._binding, self._by_method = binding, by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to the path."""
        response = await self._binding.answer(StrictRequest(scope, receive, A2A_JSON, JSON), self._by_method)
        await response(scope, receive, send)


async def body_of(request: StrictRequest, *, may_lack: bool = False) -> dict[str, Any]:
    """Return the body's JSON object, {} for an empty one that may be; raises as `StrictRequest.json` does."""
    if may_lack and not await request.body():
        return {}
    body = await request.json()
    if not isinstance(body, dict):
        raise InvalidRequestError("The body has to be a JSON object.")
    return body


def nothing_here() -> MethodNotFoundError:
    """Return the refusal of a path that is none of this server's."""
    return MethodNotFoundError(
        "There is nothing at this path. /.well-known/manifest.json lists the agents, and the card of each, at "
        "/.well-known/agent-card.json below its path, says where it answers."
    )


def not_allowed(by_method: Mapping[str, Any]) -> MethodNotAllowedError:
    """Return the refusal of an HTTP method that the path does not have."""
    return MethodNotAllowedError(f"This path takes {', '.join(by_method)}, and no other method.")


async def refuse_path(_: Request, error: Exception) -> Response:
    """Answer where the app has no route, or none for the method, in the protocol's shape."""
    allowed = (getattr(error, "headers", None) or {}).get("Allow")
    if not allowed:
        return rest_error(nothing_here(), getattr(error, "status_code", None))
    response = rest_error(not_allowed(dict.fromkeys(allowed.split(", "))))
    response.headers["Allow"] = allowed
    return response
