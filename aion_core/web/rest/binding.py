"""HTTP+JSON binding of an agent in one version of A2A (A2A 11)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aion_core.auth.tenants import is_tenant
from aion_core.protocol.errors import MethodNotAllowedError
from aion_core.web.errors import A2A_JSON, JSON
from aion_core.web.operations.operation import HttpRoute, Operation
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.body import BodyRefused, StrictRequest
from aion_core.web.request.call_context import CallContextBuilder
from aion_core.web.request.extensions import check_required, negotiate
from aion_core.web.request.versions import check_version
from aion_core.web.rest.refusals import http_refusal, method_not_allowed, path_not_found

PRIVATE = "private, no-store"
"""Value of the `Cache-Control` header in a response for one caller."""

Endpoints = Mapping[str, Mapping[str, tuple[Operation, HttpRoute]]]
"""Operations with their routes, by path and then by HTTP method."""


class HttpBinding(ABC):
    """HTTP+JSON binding for one agent and one version of the protocol. Responds to its requests."""

    version: ClassVar[str]

    def __init__(self, services: AgentServices, agent_id: str, operations: Iterable[Operation]) -> None:
        self._services = services
        self._endpoints = self.endpoints(operations)
        self._builder = CallContextBuilder(agent_id, services.card, self.version)

    @classmethod
    @abstractmethod
    def endpoints(cls, operations: Iterable[Operation]) -> Endpoints:
        """Return the operations by path and HTTP method, in routing order: the first matching path is used."""

    def routes(self, prefix: str) -> list[Route]:
        """Return Starlette's routes for the agent's operations below the path prefix."""
        return [Route(f"{prefix}{path}", _Endpoint(self, by_method)) for path, by_method in self._endpoints.items()]

    async def answer(self, request: StrictRequest, by_method: Mapping[str, tuple[Operation, HttpRoute]]) -> Response:
        """Return the response to a request. `by_method` has the operations at its path by HTTP method."""
        path, headers = request.path_params, dict[str, str]()
        if not all(path.values()) or not is_tenant(path.get("tenant", "any")):
            return http_refusal(request, path_not_found(request))
        try:
            if request.method not in by_method:
                # Report an unknown path instead of a wrong HTTP method for an unknown custom method, such as
                # `/tasks/{id}:nothing`, although its path matches the route of `GET /tasks/{id}`.
                raise path_not_found(request) if ":" in path.get("id", "") else method_not_allowed(by_method)
            operation, route = by_method[request.method]
            check_version(request, self.version, operation.first_path)
            negotiated = negotiate(request, self._services.card)
            headers = negotiated.headers(self.version)
            if not operation.before_extensions:
                check_required(negotiated, self._services.card, self.version)
            response = await self.operate(operation, route, request)
        except MethodNotAllowedError as error:
            response = self.refuse(request, error)
            response.headers["Allow"] = ", ".join(by_method)
        except BodyRefused as refused:
            response = self.refuse(request, refused.error, refused.http)
        except Exception as error:  # outermost handler: log an unexpected error and return it as an internal error
            response = self.refuse(request, error)
        response.headers.update(headers)
        # Forbid shared caches to store the response, because a task or an extended card is for one caller only.
        response.headers.setdefault("Cache-Control", PRIVATE)
        return response

    @abstractmethod
    async def operate(self, operation: Operation, route: HttpRoute, request: StrictRequest) -> Response:
        """Execute the operation and return its response. Raises the protocol's errors."""

    @abstractmethod
    def refuse(self, request: StrictRequest, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error response in the format of this protocol version. `http` overrides the status."""


class _Endpoint:
    """ASGI app for one path of an HTTP+JSON binding and all HTTP methods."""

    def __init__(self, binding: HttpBinding, by_method: Mapping[str, tuple[Operation, HttpRoute]]) -> None:
        self._binding, self._by_method = binding, by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to this path of the HTTP+JSON binding."""
        response = await self._binding.answer(StrictRequest(scope, receive, A2A_JSON, JSON), self._by_method)
        await response(scope, receive, send)


def in_routing_order(routes: Iterable[tuple[Operation, HttpRoute]]) -> Endpoints:
    """Return the operations by path and HTTP method. Paths that end with a parameter come last."""
    endpoints: dict[str, dict[str, tuple[Operation, HttpRoute]]] = {}
    for operation, route in sorted(routes, key=lambda entry: (":text}" in entry[1].path, entry[1].path[-1] == "}")):
        endpoints.setdefault(route.path, {})[route.method] = (operation, route)
    return endpoints
