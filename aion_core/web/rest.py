"""The HTTP+JSON binding of v1.0: which path is which operation, and what a request of it is asked with (spec 11).

The operations themselves are those of JSON-RPC. Responses are application/a2a+json, streams frames of StreamResponse.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from starlette.responses import JSONResponse, Response

from aion_core.protocol.errors import invalid_params
from aion_core.web.body import StrictRequest
from aion_core.web.errors import A2A_JSON, rest_error
from aion_core.web.http_binding import HttpBinding, Paths, body_of
from aion_core.web.operations import OPERATIONS
from aion_core.web.params import read_params, read_query
from aion_core.web.request_context import V1, tenant_of
from aion_core.web.sse import REST_V1, open_stream

_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"

_PATHS: Paths = {
    "/message:send": {"POST": "SendMessage"},
    "/message:stream": {"POST": "SendStreamingMessage"},
    "/tasks": {"GET": "ListTasks"},
    "/tasks/{id}:cancel": {"POST": "CancelTask"},
    # The specification says POST, its proto file GET.
    "/tasks/{id}:subscribe": {"POST": "SubscribeToTask", "GET": "SubscribeToTask"},
    "/tasks/{id}": {"GET": "GetTask"},
    _CONFIGS: {"POST": "CreateTaskPushNotificationConfig", "GET": "ListTaskPushNotificationConfigs"},
    # A config's id is the client's choice, and may hold a slash.
    f"{_CONFIGS}/{{id:path}}": {
        "GET": "GetTaskPushNotificationConfig",
        "DELETE": "DeleteTaskPushNotificationConfig",
    },
    "/extendedAgentCard": {"GET": "GetExtendedAgentCard"},
}
"""A path's parameter has the name of the field that it fills."""

_WITHOUT_BODY = frozenset({"SubscribeToTask"})
"""Posted, yet asked with nothing but the path: a body is not read."""
_MAY_LACK_BODY = frozenset({"CancelTask"})


class RestV1(HttpBinding):
    """v1.0's: each path also within a tenant."""

    version = V1
    paths: ClassVar[Paths] = {**_PATHS, **{f"/{{tenant}}{path}": by_method for path, by_method in _PATHS.items()}}
    reads_card = frozenset(name for name, operation in OPERATIONS.items() if operation.reads_card)

    async def operate(self, operation: str, request: StrictRequest) -> Response:
        """Answer the operation; raises the protocol's errors."""
        about = OPERATIONS[operation]
        if request.method != "POST":
            params = read_query(request.query_params, about.request)
        elif operation in _WITHOUT_BODY:
            params = {}
        else:
            params = await body_of(request, may_lack=operation in _MAY_LACK_BODY)
        path = dict(request.path_params)
        in_path = path.pop("tenant", "")
        params = _with_path(params, path)
        context = self._builder.build_in(request, tenant_of(params, in_path))
        asked: Any = read_params(params, about.request)
        if about.answer is None:
            return await open_stream(self._handler.batches(asked, context), REST_V1)
        answer = await about.answer(self._handler, asked, context)
        return JSONResponse({} if answer is None else answer, media_type=A2A_JSON)

    def refuse(self, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error as v1.0 has it (spec 11.6)."""
        return rest_error(error, http)


def _with_path(params: dict[str, Any], path: Mapping[str, str]) -> dict[str, Any]:
    """Return the params with what the path says; raises InvalidParamsError where they say otherwise."""
    for field, value in path.items():
        if params.get(field) not in (None, "", value):
            raise invalid_params(f"{field} is another in the request than in its path.", field)
    return {**params, **path}
