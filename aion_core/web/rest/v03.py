"""HTTP+JSON binding of v0.3."""

from collections.abc import Iterable

from starlette.responses import JSONResponse, Response

from aion_core.web.errors import v03_rest_error
from aion_core.web.operations.operation import HttpRoute, Operation
from aion_core.web.request.body import StrictRequest
from aion_core.web.request.versions import V03
from aion_core.web.rest.binding import Endpoints, HttpBinding, in_routing_order


class RestV03(HttpBinding):
    """HTTP+JSON binding of v0.3, without tenants.

    It replaces the SDK's adapter. The adapter reads bodies without a limit, exposes internal errors, cannot delete a
    push config, and does not number the events of a stream.
    """

    version = V03

    @classmethod
    def endpoints(cls, operations: Iterable[Operation]) -> Endpoints:
        """Return v0.3's operations by path and HTTP method."""
        return in_routing_order(
            (operation, route) for operation in operations if operation.v03 for route in operation.v03.routes
        )

    async def operate(self, operation: Operation, route: HttpRoute, request: StrictRequest) -> Response:
        """Execute the operation and return its response. Raises the protocol's errors."""
        # Import late, so that clients of v1.0 do not wait for the models of v0.3.
        from aion_core.web.v03.answers import answer_http

        return await answer_http(operation, self._services, self._builder, request)

    def refuse(self, request: StrictRequest, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error response in v0.3's format."""
        return v03_rest_error(error, http)
