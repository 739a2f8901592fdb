"""HTTP+JSON binding: paths, methods and refusals of either version, and the operations of v1.0 (spec 11).

Responses are application/a2a+json, streams frames of StreamResponse.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, InvalidRequestError, MethodNotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aion_core.protocol.card import document, document_v1, written
from aion_core.protocol.errors import MethodNotAllowedError, invalid_params
from aion_core.protocol.types import AgentCard
from aion_core.web.cards import reads_v1_only
from aion_core.web.errors import A2A_JSON, rest_error, rest_error_body
from aion_core.web.request_body import JSON, BodyRefused, StrictRequest, read_params, read_query
from aion_core.web.request_context import (
    V1,
    CallContextBuilder,
    check_required,
    is_tenant,
    negotiate,
    settle_version,
    tenant_of,
)
from aion_core.web.request_handler import OPERATIONS, AionRequestHandler
from aion_core.web.sse import REST_V1, EventStream

# ── Both versions ─────────────────────────────────────────────────────────────────────────────────────────────────────

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


# ── v1.0 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

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
            return EventStream(*await self._handler.opened(asked, context), REST_V1)
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


# ── Extended card, by its oldest name ─────────────────────────────────────────────────────────────────────────────────

EXTENDED_CARD_PATH = "/agent/authenticatedExtendedCard"
"""Where a GET finds the extended card by its oldest name (D4); v1.0's and v0.3's own paths are the REST binding's."""
NOT_SHARED = "private, no-store"
"""What is said to one caller is nobody else's: the `Cache-Control` of an extended card."""


def extended_card_route(
    prefix: str, handler: AionRequestHandler, call: Callable[[Request], ServerCallContext]
) -> Route:
    """Return the route of the extended card's oldest name (D4); `call` says who asks, or raises that nobody may."""

    async def answer(request: Request) -> Response:
        headers = {"cache-control": NOT_SHARED}
        try:
            card = await handler.on_get_extended_agent_card(pb.GetExtendedAgentCardRequest(), call(request))
        except A2AError as error:
            refusal = rest_error_body(error)
            return Response(written(refusal), refusal["error"]["code"], headers, JSON)
        body = written((document_v1 if reads_v1_only(request) else document)(card))
        return Response(body, headers=headers, media_type=JSON)

    return Route(f"{prefix}{EXTENDED_CARD_PATH}", answer)
