"""HTTP+JSON binding of v1.0 and v0.3 (A2A 11): routes, requests, responses and refusals."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, MethodNotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aion_core.auth.tenants import is_tenant
from aion_core.errors import AionError
from aion_core.protocol.card import canonical_json
from aion_core.protocol.errors import MethodNotAllowedError, invalid_params
from aion_core.web.cards import card_document, reads_v1_only
from aion_core.web.errors import A2A_JSON, rest_error, rest_error_body, v03_rest_error
from aion_core.web.middleware.paths import route_path
from aion_core.web.operations.discovery import extended_card
from aion_core.web.operations.operation import AgentServices, Body, HttpRoute, Operation
from aion_core.web.request_body import JSON, BodyRefused, StrictRequest, read_params, read_query
from aion_core.web.request_context import (
    V03,
    V1,
    CallContextBuilder,
    check_required,
    check_version,
    negotiate,
    tenant_of,
)
from aion_core.web.sse import REST_V1, EventStream

PRIVATE = "private, no-store"
"""Value of the `Cache-Control` header in a response for one caller."""

Endpoints = Mapping[str, Mapping[str, tuple[Operation, HttpRoute]]]
"""Operations with their routes, by path and then by HTTP method."""


class HttpBinding(ABC):
    """HTTP+JSON binding for one agent and one version of the protocol. Responds to its requests."""

    version: ClassVar[str]

    def __init__(self, services: AgentServices, agent_id: str, operations: Iterable[Operation]) -> None:
        self._services, self._card = services, services.card
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
            return http_refusal(route_path(request.scope), path_not_found())
        try:
            if request.method not in by_method:
                # Report an unknown path instead of a wrong HTTP method for an unknown custom method, such as
                # `/tasks/{id}:nothing`, although its path matches the route of `GET /tasks/{id}`.
                raise path_not_found() if ":" in path.get("id", "") else method_not_allowed(by_method)
            operation, route = by_method[request.method]
            check_version(request, self.version, operation.first_path)
            negotiated = negotiate(request, self._card)
            headers = negotiated.headers(self.version)
            if not operation.before_extensions:
                check_required(negotiated, self._card, self.version)
            response = await self.operate(operation, route, request)
        except MethodNotAllowedError as error:
            response = self.refuse(error)
            response.headers["Allow"] = ", ".join(by_method)
        except BodyRefused as refused:
            response = self.refuse(refused.error, refused.http)
        except Exception as error:  # outermost handler: log an unexpected error and return it as an internal error
            response = self.refuse(error)
        response.headers.update(headers)
        # Forbid shared caches to store the response, because a task or an extended card is for one caller only.
        response.headers.setdefault("Cache-Control", PRIVATE)
        return response

    @abstractmethod
    async def operate(self, operation: Operation, route: HttpRoute, request: StrictRequest) -> Response:
        """Execute the operation and return its response. Raises the protocol's errors."""

    @abstractmethod
    def refuse(self, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error response in the format of this protocol version. `http` overrides the status."""


class _Endpoint:
    """ASGI app for one path of an HTTP+JSON binding and all HTTP methods."""

    def __init__(self, binding: HttpBinding, by_method: Mapping[str, tuple[Operation, HttpRoute]]) -> None:
        self._binding, self._by_method = binding, by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to this path of the HTTP+JSON binding."""
        response = await self._binding.answer(StrictRequest(scope, receive, A2A_JSON, JSON), self._by_method)
        await response(scope, receive, send)


def _in_routing_order(routes: Iterable[tuple[Operation, HttpRoute]]) -> Endpoints:
    """Return the operations by path and HTTP method. Paths that end with a parameter come last."""
    endpoints: dict[str, dict[str, tuple[Operation, HttpRoute]]] = {}
    for operation, route in sorted(routes, key=lambda entry: (":path}" in entry[1].path, entry[1].path[-1] == "}")):
        endpoints.setdefault(route.path, {})[route.method] = (operation, route)
    return endpoints


def path_not_found() -> MethodNotFoundError:
    """Return the error for a request to an unknown path."""
    return MethodNotFoundError(
        "This path does not exist. /.well-known/manifest.json lists the agents; the card of each agent, at "
        "/.well-known/agent-card.json below its path, has its URLs."
    )


def method_not_allowed(by_method: Iterable[str]) -> MethodNotAllowedError:
    """Return the error for a request with an HTTP method that the path does not accept."""
    return MethodNotAllowedError(f"This path accepts only {', '.join(by_method)}.")


_V03_PATH = re.compile(r"(/agents/[^/]+)?/v1/")
"""Matches the request paths of v0.3's HTTP+JSON binding."""


def http_refusal(path: str, error: Exception, http: int | None = None) -> JSONResponse:
    """Return the error response in the format of the path's HTTP+JSON binding. `http` overrides the status."""
    return v03_rest_error(error, http) if _V03_PATH.match(path) else rest_error(error, http)


async def refuse_path(request: Request, error: Exception) -> Response:
    """Return the error response for a request that matches no route. This is an exception handler of Starlette."""
    allowed = (getattr(error, "headers", None) or {}).get("Allow")
    if not allowed:
        return http_refusal(route_path(request.scope), path_not_found(), getattr(error, "status_code", None))
    response = rest_error(method_not_allowed(dict.fromkeys(allowed.split(", "))))
    response.headers["Allow"] = allowed
    return response


# ── v1.0 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class RestV1(HttpBinding):
    """HTTP+JSON binding of v1.0. Each path also exists below a tenant name."""

    version = V1

    @classmethod
    def endpoints(cls, operations: Iterable[Operation]) -> Endpoints:
        """Return v1.0's operations by path and HTTP method."""
        paths = _in_routing_order((operation, route) for operation in operations for route in operation.routes)
        return {**paths, **{f"/{{tenant}}{path}": by_method for path, by_method in paths.items()}}

    async def operate(self, operation: Operation, route: HttpRoute, request: StrictRequest) -> Response:
        """Execute the operation and return its response. Raises the protocol's errors."""
        assert operation.request is not None  # noqa: S101  # set if the operation has a route
        if route.has_query:
            params = read_query(request.query_params, operation.request)
        elif route.body is Body.IGNORED:
            params = {}
        else:
            params = await request.json_object(optional=route.body is Body.OPTIONAL)
        path = dict(request.path_params)
        in_path = path.pop("tenant", "")
        params = _with_path(params, path)
        context = self._builder.build_in(request, tenant_of(params, in_path))
        read: Any = await request.convert(read_params, params, operation.request)
        if operation.stream:
            batches = operation.stream(self._services, read, context)
            return EventStream(await anext(batches, []), batches, REST_V1)
        assert operation.run is not None  # noqa: S101
        result = operation.write(await operation.run(self._services, read, context), read)
        return JSONResponse({} if result is None else result, media_type=A2A_JSON)

    def refuse(self, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error response in v1.0's format (A2A 11.6)."""
        return rest_error(error, http)


def _with_path(params: dict[str, Any], path: Mapping[str, str]) -> dict[str, Any]:
    """Return the params together with the parameters in the path. Raises InvalidParamsError if a value differs."""
    for field, value in path.items():
        if params.get(field) not in (None, "", value):
            raise invalid_params(f"{field} differs between the request and its path.", field)
    return {**params, **path}


# ── v0.3 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class RestV03(HttpBinding):
    """HTTP+JSON binding of v0.3, without tenants.

    It replaces the SDK's adapter. The adapter reads bodies without a limit, exposes internal errors, cannot delete a
    push config, and does not number the events of a stream.
    """

    version = V03

    @classmethod
    def endpoints(cls, operations: Iterable[Operation]) -> Endpoints:
        """Return v0.3's operations by path and HTTP method."""
        return _in_routing_order(
            (operation, route) for operation in operations if operation.v03 for route in operation.v03.routes
        )

    async def operate(self, operation: Operation, route: HttpRoute, request: StrictRequest) -> Response:
        """Execute the operation and return its response. Raises the protocol's errors."""
        # Import late, so that clients of v1.0 do not wait for the models of v0.3.
        from aion_core.web.v03_operations import answer_http

        return await answer_http(operation, self._services, self._builder, request)

    def refuse(self, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error response in v0.3's format."""
        return v03_rest_error(error, http)


# ── Oldest path of the extended card ──────────────────────────────────────────────────────────────────────────────────

EXTENDED_CARD_PATH = "/agent/authenticatedExtendedCard"
"""Oldest path of the extended card. The paths of v1.0 and v0.3 are in the operations table."""


def extended_card_route(
    prefix: str, services: AgentServices, build_context: Callable[[Request], ServerCallContext]
) -> Route:
    """Return the route of the extended card at its oldest path. `build_context` raises for an unauthorised caller."""

    async def answer(request: Request) -> Response:
        headers = {"cache-control": PRIVATE}
        try:
            card = await extended_card(services, pb.GetExtendedAgentCardRequest(), build_context(request))
        except (A2AError, AionError) as error:
            refusal = rest_error_body(error)
            return Response(canonical_json(refusal), refusal["error"]["code"], headers, JSON)
        body = canonical_json(card_document(card, v1_only=reads_v1_only(request)))
        return Response(body, headers=headers, media_type=JSON)

    return Route(f"{prefix}{EXTENDED_CARD_PATH}", answer)
