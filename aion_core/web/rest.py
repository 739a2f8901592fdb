"""The HTTP+JSON binding of v1.0: which path is which operation, and what a request of it is asked with (spec 11).

The operations themselves are those of JSON-RPC. Responses are application/a2a+json, streams frames of StreamResponse.
"""

from collections.abc import Mapping
from typing import Any

from a2a.utils.errors import InvalidRequestError, MethodNotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aion_core.protocol.errors import MethodNotAllowedError, invalid_params
from aion_core.protocol.types import AgentCard
from aion_core.web.body import JSON, BodyRefused, StrictRequest
from aion_core.web.calls import CallContextBuilder
from aion_core.web.errors import A2A_JSON, rest_error
from aion_core.web.extensions import check_required, negotiate
from aion_core.web.operations import OPERATIONS
from aion_core.web.params import read_params, read_query
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.sse import REST_V1, open_stream
from aion_core.web.tenants import is_tenant, tenant_of
from aion_core.web.versions import V1, settle_version

_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"

PATHS: dict[str, dict[str, str]] = {
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
"""Each path's operations by HTTP method. A parameter has the name of the field that it fills; the first path that fits
is the one that is meant."""

_WITHOUT_BODY = {"SubscribeToTask"}
"""Posted, yet asked with nothing but the path: a body is not read."""
_MAY_LACK_BODY = {"CancelTask"}


class RestFace:
    """Answers the HTTP+JSON requests to one agent."""

    def __init__(self, handler: AionRequestHandler, agent_id: str, card: AgentCard) -> None:
        self._handler, self._card = handler, card
        self._builder = CallContextBuilder(agent_id, card)

    def routes(self, prefix: str) -> list[Route]:
        """Return where the agent answers below the prefix: each path, and the same in a tenant."""
        return [
            Route(f"{prefix}{before}{path}", _Endpoint(self, by_method))
            for before in ("", "/{tenant}")
            for path, by_method in PATHS.items()
        ]

    async def answer(self, request: StrictRequest, by_method: Mapping[str, str]) -> Response:
        """Answer a request to a path of these operations."""
        headers: dict[str, str] = {}
        try:
            path = dict(request.path_params)
            in_path = path.pop("tenant", "")
            if in_path and not is_tenant(in_path):
                raise nothing_here()
            if request.method not in by_method:
                return not_allowed(by_method)
            settle_version(request, V1)
            negotiated = negotiate(request, self._card)
            headers = negotiated.headers(V1)
            name = by_method[request.method]
            if not OPERATIONS[name].reads_card:
                check_required(negotiated, self._card, V1)
            response = await self._answer(request, name, path, in_path)
        except BodyRefused as refused:
            response = rest_error(refused.error, refused.http)
        except Exception as error:  # the outermost edge: what nobody expected is logged, and told as such
            response = rest_error(error)
        response.headers.update(headers)
        return response

    async def _answer(self, request: StrictRequest, name: str, path: dict[str, str], in_path: str) -> Response:
        operation = OPERATIONS[name]
        if request.method != "POST":
            params = read_query(request.query_params, operation.request)
        elif name in _WITHOUT_BODY:
            params = {}
        else:
            params = await body_of(request, may_lack=name in _MAY_LACK_BODY)
        params = with_path(params, path)
        context = self._builder.build_in(request, tenant_of(params, in_path))
        asked: Any = read_params(params, operation.request)
        if operation.answer is None:
            return await open_stream(self._handler.batches(asked, context), REST_V1)
        answer = await operation.answer(self._handler, asked, context)
        return JSONResponse({} if answer is None else answer, media_type=A2A_JSON)


class _Endpoint:
    """A path of the binding, for whatever HTTP method."""

    def __init__(self, face: RestFace, by_method: Mapping[str, str]) -> None:
        self._face, self._by_method = face, by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to the path."""
        response = await self._face.answer(StrictRequest(scope, receive, A2A_JSON, JSON), self._by_method)
        await response(scope, receive, send)


async def body_of(request: StrictRequest, *, may_lack: bool = False) -> dict[str, Any]:
    """Return the body's JSON object, {} for an empty one that may be; raises as `StrictRequest.json` does."""
    if may_lack and not await request.body():
        return {}
    body = await request.json()
    if not isinstance(body, dict):
        raise InvalidRequestError("The body has to be a JSON object.")
    return body


def with_path(params: dict[str, Any], path: Mapping[str, str]) -> dict[str, Any]:
    """Return the params with what the path says; raises InvalidParamsError where they say otherwise."""
    for field, value in path.items():
        if params.get(field) not in (None, "", value):
            raise invalid_params(f"{field} is another in the request than in its path.", field)
    return {**params, **path}


def nothing_here() -> MethodNotFoundError:
    """Return the refusal of a path that is none of this server's."""
    return MethodNotFoundError(
        "There is nothing at this path. The agent's card, at /.well-known/agent-card.json, says where it answers."
    )


def not_allowed(by_method: Mapping[str, Any]) -> Response:
    """Return the refusal of an HTTP method that the path does not have."""
    allowed = ", ".join(by_method)
    response = rest_error(MethodNotAllowedError(f"This path takes {allowed}, and no other method."))
    response.headers["Allow"] = allowed
    return response


async def refuse_path(_: Request, error: Exception) -> Response:
    """Answer where the app has no route, or none for the method, in the protocol's shape."""
    status = getattr(error, "status_code", 404)
    if status == 405:
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "")
        return not_allowed(dict.fromkeys(sorted(allowed.split(", "))))
    return rest_error(nothing_here(), status)
