"""JSON-RPC on one URL in both dialects: the method's name picks the protocol version (D1).

The SDK's dispatchers do the work. What is overridden here are the writing of streams, which is `sse`'s, and the gaps
that a client would fall into; each override says which.
"""

import logging
import re
from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder, ServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, VersionNotSupportedError
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from aion_core.protocol.types import TaskState
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.listing import unknown_status
from aion_core.tasks.service import Call
from aion_core.web import context_methods
from aion_core.web.body import MAX_BODY_BYTES, StrictRequest, TooLarge
from aion_core.web.errors import error_body
from aion_core.web.request_handler import CALL, AionRequestHandler, wire_errors
from aion_core.web.sse import EventStream, RequestId, encode_v03, encode_v1, open_stream

# The SDK's dispatcher imports this adapter; imported the other way round the two make a circle.
from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter  # isort: skip

logger = logging.getLogger(__name__)

WORK = "aion.work"
"""Where an ASGI scope holds the set of tasks that a request has set going."""

TIME_UP = "aion.time_up"
"""Where an ASGI scope says until when this process serves the request."""

_VERSION = "A2A-Version"
_ANONYMOUS = "anonymous"
"""The owner where nobody is asked who they are."""


class CallContextBuilder(ServerCallContextBuilder):
    """Says who calls, and for which agent."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._inner = DefaultServerCallContextBuilder()

    def build(self, request: Request) -> ServerCallContext:
        """Return the call's context; the version may come as a query parameter too (spec 3.6.1)."""
        context = self._inner.build(request)
        context.state[CALL] = Call(
            _ANONYMOUS,
            self._agent_id,
            request.scope[WORK],
            time_up=request.scope[TIME_UP],
            # A structured header puts its text in quotes (draft-ietf-httpapi-idempotency-key-header).
            idempotency_key=request.headers.get("Idempotency-Key", "").strip().strip('"'),
            last_heard=request.headers.get("Last-Event-ID", ""),
        )
        context.state[_VERSION] = request.headers.get(_VERSION) or request.query_params.get(_VERSION) or ""
        return context


class Dispatcher(JsonRpcDispatcher):
    """v1.0 by itself, v0.3 by its adapter."""

    def __init__(self, handler: AionRequestHandler, conversations: Conversations, agent_id: str) -> None:
        builder = CallContextBuilder(agent_id)
        super().__init__(handler, builder, enable_v0_3_compat=True)
        self._handler, self._conversations = handler, conversations
        self._v03_adapter = V03Adapter(handler, builder)

    async def handle_requests(self, request: Request) -> Response:
        """Answer a POST; the body is read within its limit, before anything looks at it."""
        strict = StrictRequest(request.scope, request.receive)
        request_id: RequestId = None
        try:
            body = await strict.json()
            request_id = _request_id(body)
            _check_envelope(body)
            _check_raw(body)
            _check_status(body)
            if body["method"] in context_methods.VERSIONS:
                return await self._answer_of_context(body, strict)
        except A2AError as error:
            return self._generate_error_response(request_id, error)
        except TooLarge:
            refusal = InvalidRequestError(
                f"The body is larger than {MAX_BODY_BYTES} bytes: send a part with the url of a file instead."
            )
            return JSONResponse(error_body(None, refusal), status_code=413)
        return await super().handle_requests(strict)

    async def _answer_of_context(self, body: dict[str, Any], request: Request) -> JSONResponse:
        """Answer one of the methods that the SDK does not know."""
        method, context = body["method"], self._context_builder.build(request)
        _settle_version(context, context_methods.VERSIONS[method])
        try:
            with wire_errors():
                result = await context_methods.answer(
                    self._conversations, context.state[CALL], method, body.get("params", {})
                )
        except A2AError:
            raise
        except Exception as error:
            logger.exception("A context could not be read.")
            return self._generate_error_response(_request_id(body), error)
        return JSONResponse({"jsonrpc": "2.0", "id": _request_id(body), "result": result})

    def _generate_error_response(self, request_id: RequestId, error: Any) -> JSONResponse:
        # The SDK's says what an unexpected exception said, and hides what its parser said.
        return JSONResponse(error_body(request_id, error))

    async def _process_non_streaming_request(self, request_obj: Any, context: ServerCallContext) -> Any:
        # The SDK takes a missing version for 0.3 and refuses the method.
        _settle_version(context, "1.0")
        return await super()._process_non_streaming_request(request_obj, context)

    async def _process_streaming_request(
        self, request_id: RequestId, request_obj: pb.SendMessageRequest, context: ServerCallContext
    ) -> Any:
        _settle_version(context, "1.0")
        return await open_stream(self._handler.batches(request_obj, context), encode_v1, request_id)

    def _create_response(self, context: ServerCallContext, handler_result: Any) -> Response:
        if isinstance(handler_result, EventStream):
            return handler_result
        return super()._create_response(context, handler_result)


class V03Adapter(JSONRPC03Adapter):
    """The v0.3 methods, over the same handler."""

    def __init__(self, handler: AionRequestHandler, builder: ServerCallContextBuilder) -> None:
        super().__init__(handler, builder)
        self._handler = handler

    async def handle_request(self, request_id: RequestId, method: str, body: dict[str, Any], request: Request) -> Any:
        """Answer a v0.3 request: bad params are -32602 here, -32600 in the SDK."""
        try:
            self.METHOD_TO_MODEL[method].model_validate(body)
        except ValidationError as error:
            return self._generate_error_response(request_id, _bad_params(error))
        return await super().handle_request(request_id, method, body, request)

    def _generate_error_response(self, request_id: RequestId, error: Any) -> JSONResponse:
        return JSONResponse(error_body(request_id, error))

    async def _process_non_streaming_request(
        self, request_id: RequestId, request_obj: Any, context: ServerCallContext
    ) -> JSONResponse:
        _settle_version(context, "0.3")
        if isinstance(request_obj, v03.SendMessageRequest):
            _core_request(request_obj)
        return await super()._process_non_streaming_request(request_id, request_obj, context)

    async def _process_streaming_request(
        self, request_id: RequestId, request_obj: Any, context: ServerCallContext
    ) -> Any:
        _settle_version(context, "0.3")
        if isinstance(request_obj, v03.TaskResubscriptionRequest):
            core: Any = conversions.to_core_subscribe_to_task_request(request_obj)
        else:
            core = _core_request(request_obj)
        return await open_stream(self._handler.batches(core, context), encode_v03, request_id)


def _request_id(body: Any) -> RequestId:
    """Return the id to answer with: null where the request has none that JSON-RPC allows."""
    given = body.get("id") if isinstance(body, dict) else None
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def _check_envelope(body: Any) -> None:
    """Refuse what is no JSON-RPC 2.0 request; the SDK's own words for it say nothing of the mend."""
    if isinstance(body, list):
        raise InvalidRequestError("Batch requests are not supported: send the requests one by one.")
    if not isinstance(body, dict):
        raise InvalidRequestError("The body has to be a JSON-RPC 2.0 request, which is an object.")
    if body.get("jsonrpc") != "2.0":
        raise InvalidRequestError('The request\'s "jsonrpc" has to be "2.0".')
    if body.get("id") != _request_id(body):
        raise InvalidRequestError('The request\'s "id" has to be a string or a whole number.')
    if not isinstance(body.get("method"), str) or not body["method"]:
        raise InvalidRequestError('The request\'s "method" has to name a method, such as "SendMessage".')
    if not isinstance(body.get("params", {}), dict):
        raise InvalidParamsError('The request\'s "params" has to be an object.')


def _check_raw(body: dict[str, Any]) -> None:
    """Refuse bytes that are no base64: protobuf's own parser reads past what it does not know."""
    message = body.get("params", {}).get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        raw = part.get("raw") if isinstance(part, dict) else None
        if isinstance(raw, str) and not _BASE64.fullmatch(raw):
            field = f"message.parts[{index}].raw"
            sentence = f"{field} is no base64."
            raise InvalidParamsError(sentence, data={"errors": [{"field": field, "message": sentence}]})


def _check_status(body: dict[str, Any]) -> None:
    """Refuse to list by a status that is none: the SDK's parser leaves it out, and lists everything."""
    status = body.get("params", {}).get("status") if body["method"] == "ListTasks" else None
    if isinstance(status, int) and not isinstance(status, bool):
        return  # protobuf takes numbers too, and passes on those that mean nothing
    if status is not None and status not in TaskState.keys():  # noqa: SIM118  # no mapping
        sentence = unknown_status(str(status))
        raise InvalidParamsError(sentence, data={"errors": [{"field": "status", "message": sentence}]})


_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3}={0,2})?")


def _core_request(request: Any) -> pb.SendMessageRequest:
    """Return the v0.3 request in the domain's types.

    Raises InvalidParamsError where a part cannot be read, such as bad base64, which the SDK lets fail as internal.
    """
    try:
        return conversions.to_core_send_message_request(request)
    except A2AError:
        raise
    except Exception as error:  # binascii, protobuf and the SDK each raise their own
        raise InvalidParamsError(f"A part of params.message cannot be read: {error}.") from error


def _settle_version(context: ServerCallContext, spoken: str) -> None:
    """Refuse a request whose stated version contradicts its method; where none is stated the method says it (D1)."""
    stated = context.state[_VERSION]
    if stated:
        numbers = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", stated)
        if numbers is None or numbers[1] != spoken:
            raise VersionNotSupportedError(
                f"This method is of A2A {spoken}, and the request's {_VERSION} is {stated[:20]!r}: "
                f"send {spoken}, or leave it out."
            )
    context.state["headers"] = {**context.state["headers"], _VERSION: spoken}


def _bad_params(error: ValidationError) -> InvalidParamsError:
    """Return the refusal of params that are not as v0.3 has them, with each field that is wrong."""
    problems: dict[str, str] = {}
    for problem in error.errors():
        field, message = _field(problem["loc"]), problem["msg"]
        if part := _PART.match(field):
            # A part is a union: each of its branches complains, and none of the complaints says what is the matter.
            field, message = part[0], _PART_RULE
        problems.setdefault(field, f"{message[:1].lower()}{message[1:]}")
    field, message = next(iter(problems.items()))
    violations = [{"field": field, "message": message} for field, message in problems.items()]
    where = f"params.{field}" if field else "params"
    return InvalidParamsError(f"{where} cannot be used: {message}.", data={"errors": violations})


_PART = re.compile(r"message\.parts\[\d+\]")
_PART_RULE = (
    'this is no part: send {"kind": "text", "text": …}, {"kind": "file", "file": {"uri" or "bytes": …}} '
    'or {"kind": "data", "data": {…}}'
)


def _field(path: tuple[int | str, ...]) -> str:
    """Return the path in the client's words; a union's branches, which begin with a capital, are pydantic's."""
    steps = [step for step in path if isinstance(step, int) or not step[:1].isupper()]
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return field.removeprefix(".").removeprefix("params.")
