"""JSON-RPC binding of v1.0 and v0.3 at one URL. The name of the method selects the version (A2A 9)."""

from collections.abc import Callable, Iterable
from typing import Any

from a2a.utils.errors import InvalidParamsError, InvalidRequestError, MethodNotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.protocol.text import is_text
from aion_core.web.errors import A2A_JSON, JSON, error_body, rpc_error
from aion_core.web.json_answer import JsonAnswer
from aion_core.web.operations.operation import Operation
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.body import BodyRefused, StrictRequest
from aion_core.web.request.call_context import CallContextBuilder, tenant_of
from aion_core.web.request.extensions import check_required, negotiate
from aion_core.web.request.params import read_params
from aion_core.web.request.versions import V03, V1, check_version, stated_version
from aion_core.web.sse import EventStream, RequestId, jsonrpc_v1, refused_stream

ROUTE_NAME = "jsonrpc"

MAX_ID_CHARACTERS = 256
"""Maximum length of a JSON-RPC id. Each response repeats it."""


class JsonRpcBinding:
    """JSON-RPC binding for one agent. Responds to its requests."""

    def __init__(self, services: AgentServices, agent_id: str, operations: Iterable[Operation]) -> None:
        self._services = services
        self._builder = CallContextBuilder(agent_id, services.card)
        self._builder_v03 = CallContextBuilder(agent_id, services.card, V03)
        self._v1: dict[str, Operation] = {}
        self._v03: dict[str, Operation] = {}
        self._aliases: dict[str, str] = {}
        for operation in operations:
            self._v1[operation.name] = operation
            if operation.v03 and (method := operation.v03.method):
                self._v03[method] = operation
                self._aliases |= dict.fromkeys(operation.v03.aliases, method)

    def routes(self, prefix: str) -> list[Route]:
        """Return the agent's JSON-RPC routes at the path prefix, with and without a slash at the end."""
        return [
            Route(path, self.handle, methods=["POST"], name=ROUTE_NAME)
            for path in sorted({prefix or "/", f"{prefix}/"})
        ]

    async def handle(self, request: Request) -> Response:
        """Return the response to a JSON-RPC request."""
        strict = StrictRequest(request.scope, request.receive, JSON, A2A_JSON)
        headers: dict[str, str] = {}
        refuse: Callable[[RequestId, Exception], Response] = rpc_error
        try:
            body = await strict.json()
            request_id = _request_id(body)
            _check_envelope(body)
            body["method"] = method = self._aliases.get(body["method"], body["method"])
            operation, version = self._operation(method)
            if operation.stream and _reads_only_streams(strict, version):
                refuse = refused_stream
            check_version(strict, version, operation.method)
            negotiated = negotiate(strict, self._services.card)
            headers = negotiated.headers(version)
            if not operation.before_extensions:
                check_required(negotiated, self._services.card, version)
            answer = self._answer if version == V1 else self._answer_v03
            response = await answer(request_id, method, body, strict)
        except BodyRefused as refused:
            response = JSONResponse(error_body(None, refused.error), refused.http)
        except Exception as error:  # outermost handler: log an unexpected error and return it as an internal error
            response = refuse(_request_id(strict.read), error)
        if headers:
            response.headers.update(headers)
        return response

    def _operation(self, method: str) -> tuple[Operation, str]:
        """Return the operation with this JSON-RPC method name, and its A2A version. Raises MethodNotFoundError."""
        if method in self._v1:
            return self._v1[method], V1
        if method in self._v03:
            return self._v03[method], V03
        raise MethodNotFoundError(f"This server has {', '.join(self._v1)}, and v0.3's {', '.join(self._v03)}.")

    async def _answer(
        self, request_id: RequestId, method: str, body: dict[str, Any], request: StrictRequest
    ) -> Response:
        operation, params = self._v1[method], body.get("params", {})
        context = self._builder.build_in(request, tenant_of(params))
        read: Any = await request.convert(read_params, params, operation.request) if operation.request else params
        if operation.stream:
            batches = operation.stream(self._services, read, context)
            return EventStream(await anext(batches, []), batches, jsonrpc_v1(request_id))
        assert operation.run is not None  # noqa: S101
        result = operation.write(await operation.run(self._services, read, context), read)
        # The JSON of google.protobuf.Empty is {}, and .NET's client cannot read null.
        result = {} if result is None else result
        return JsonAnswer({"result": result, "id": request_id, "jsonrpc": "2.0"})

    async def _answer_v03(
        self, request_id: RequestId, method: str, body: dict[str, Any], request: StrictRequest
    ) -> Response:
        # Import late, so that clients of v1.0 do not wait for the models of v0.3.
        from aion_core.web.v03.answers import answer_jsonrpc

        return await answer_jsonrpc(self._v03[method], self._services, self._builder_v03, request_id, body, request)


def _reads_only_streams(request: Request, version: str) -> bool:
    """Return True if the client can read only a stream as the response of a streaming method, also as a refusal.

    These are clients of v0.3, unless they state a version: SDKs of v1.0 in their v0.3 mode do, and they can read a JSON
    document. In v1.0 they are the clients of Go, and of .NET, which names no User-Agent. JavaScript's client can read
    only a JSON document as a refusal, and Python's and Java's can read both.
    """
    if version == V03:
        return not stated_version(request)
    return request.headers.get("user-agent", "").startswith(("Go-http-client/", "a2a-go")) or (
        "user-agent" not in request.headers
    )


def _request_id(body: Any) -> RequestId:
    """Return the JSON-RPC id in the request body; None if it is missing or invalid."""
    request_id = body.get("id") if isinstance(body, dict) else None
    if isinstance(request_id, str):
        return request_id if len(request_id) <= MAX_ID_CHARACTERS and is_text(request_id) else None
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


def _check_envelope(body: Any) -> None:
    """Raise InvalidRequestError or InvalidParamsError, with a remedy, if this is not a valid JSON-RPC 2.0 request."""
    if isinstance(body, list):
        raise InvalidRequestError("Batch requests are not supported: send the requests one by one.")
    if not isinstance(body, dict):
        raise InvalidRequestError("The body has to be a JSON-RPC 2.0 request, which is an object.")
    if body.get("jsonrpc") != "2.0":
        raise InvalidRequestError('The request\'s "jsonrpc" has to be "2.0".')
    if body.get("id") != _request_id(body):
        raise InvalidRequestError(
            f'The request\'s "id" has to be a string of at most {MAX_ID_CHARACTERS} characters or a whole number.'
        )
    if not isinstance(body.get("method"), str) or not body["method"]:
        raise InvalidRequestError('The request\'s "method" has to name a method, such as "SendMessage".')
    if not isinstance(body.get("params", {}), dict):
        raise InvalidParamsError('The request\'s "params" has to be an object.')
