"""HTTP+JSON binding of v1.0."""

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from aion_core.protocol.errors import invalid_params
from aion_core.web.errors import rest_error, rest_media_type
from aion_core.web.json_answer import JsonAnswer
from aion_core.web.operations.operation import Body, HttpRoute, Operation
from aion_core.web.request.body import StrictRequest
from aion_core.web.request.call_context import tenant_of
from aion_core.web.request.params import read_params, read_query
from aion_core.web.request.versions import V1
from aion_core.web.rest.binding import Endpoints, HttpBinding, in_routing_order
from aion_core.web.sse import REST_V1, EventStream


class RestV1(HttpBinding):
    """HTTP+JSON binding of v1.0. Each path also exists below a tenant name."""

    version = V1

    @classmethod
    def endpoints(cls, operations: Iterable[Operation]) -> Endpoints:
        """Return v1.0's operations by path and HTTP method."""
        paths = in_routing_order((operation, route) for operation in operations for route in operation.routes)
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
        return JsonAnswer({} if result is None else result, media_type=rest_media_type(request))

    def refuse(self, request: StrictRequest, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error response in v1.0's format (A2A 11.6)."""
        return rest_error(request, error, http)


def _with_path(params: dict[str, Any], path: Mapping[str, str]) -> dict[str, Any]:
    """Return the params together with the parameters in the path. Raises InvalidParamsError if a value differs."""
    for field, value in path.items():
        if params.get(field) not in (None, "", value):
            raise invalid_params(f"{field} differs between the request and its path.", field)
    return {**params, **path}
