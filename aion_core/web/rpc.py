"""JSON-RPC binding, on one URL for both versions: the method's name selects the version; v0.3 goes to its adapter.

An invalid request, one that states another version, and one without a required extension are refused here.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.utils.errors import InvalidParamsError, InvalidRequestError, MethodNotFoundError
from google.protobuf.json_format import MessageToDict
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.errors import InvalidMessage
from aion_core.protocol.message_rules import ID_RULE, is_id
from aion_core.protocol.types import AgentCard
from aion_core.tasks.call import CallContext
from aion_core.tasks.conversations import Conversation, Conversations
from aion_core.web.errors import error_body, rpc_error
from aion_core.web.request_body import BodyRefused, StrictRequest, is_text, read_params
from aion_core.web.request_context import (
    CALL,
    V03,
    V1,
    CallContextBuilder,
    check_required,
    negotiate,
    settle_version,
    tenant_of,
)
from aion_core.web.request_handler import OPERATIONS, AionRequestHandler, wire_errors
from aion_core.web.sse import EventStream, RequestId, jsonrpc_v1
from aion_core.web.v03 import EXTENDED_CARD, V03Adapter


@dataclass(frozen=True, slots=True)
class OwnMethod:
    """A method beside the protocol's."""

    version: str
    """The protocol version whose words it speaks."""
    answer: Callable[[dict[str, Any], CallContext], Awaitable[Any]]
    """Its params and the call come in, the result goes out as JSON; it may raise AionError."""


_ALIASES = {"agent/authenticatedExtendedCard": EXTENDED_CARD}
"""Older names of methods (D4)."""


class Dispatcher:
    """Answers JSON-RPC requests to one agent."""

    def __init__(
        self,
        handler: AionRequestHandler,
        agent_id: str,
        card: AgentCard,
        own_methods: Mapping[str, OwnMethod] | None = None,
    ) -> None:
        self._handler, self._card, self._own = handler, card, own_methods or {}
        self._builder = CallContextBuilder(agent_id, card)
        self._v03 = V03Adapter(handler, CallContextBuilder(agent_id, card, V03))

    def routes(self, prefix: str) -> list[Route]:
        """Return where the agent answers below the prefix, with and without a slash."""
        return [Route(path, self.handle, methods=["POST"]) for path in sorted({prefix or "/", f"{prefix}/"})]

    async def handle(self, request: Request) -> Response:
        """Answer a POST; the body is read within its limits, before anything looks at it."""
        strict = StrictRequest(request.scope, request.receive)
        headers: dict[str, str] = {}
        try:
            body = await strict.json()
            request_id = _request_id(body)
            _check_envelope(body)
            body["method"] = method = _ALIASES.get(body["method"], body["method"])
            version = self._version_of(method)
            settle_version(strict, version)
            negotiated = negotiate(strict, self._card)
            headers = negotiated.headers(version)
            if method != EXTENDED_CARD and not (method in OPERATIONS and OPERATIONS[method].reads_card):
                check_required(negotiated, self._card, version)
            if version == V03 and method not in self._own:
                response: Response = await self._v03.handle_request(request_id, method, body, strict)
            else:
                response = await self._answer(request_id, method, body.get("params", {}), strict)
        except BodyRefused as refused:
            response = JSONResponse(error_body(None, refused.error), refused.http)
        except Exception as error:  # the outermost edge: what nobody expected is logged, and told as such
            response = rpc_error(_request_id(strict.read), error)
        response.headers.update(headers)
        return response

    def _version_of(self, method: str) -> str:
        if method in OPERATIONS:
            return V1
        if method in self._own:
            return self._own[method].version
        if self._v03.supports_method(method):
            return V03
        raise MethodNotFoundError(
            f"There is no such method. This server has {', '.join([*OPERATIONS, *self._own])}, and v0.3's "
            f"{', '.join(V03Adapter.METHOD_TO_MODEL)}."
        )

    async def _answer(
        self, request_id: RequestId, method: str, params: dict[str, Any], request: StrictRequest
    ) -> Response:
        context = self._builder.build_in(request, tenant_of(params))
        if method in self._own:
            with wire_errors():
                result = await self._own[method].answer(params, context.state[CALL])
        else:
            operation = OPERATIONS[method]
            asked: Any = read_params(params, operation.request)
            if operation.answer is None:
                return EventStream(*await self._handler.opened(asked, context), jsonrpc_v1(request_id))
            result = await operation.answer(self._handler, asked, context)
        return JSONResponse({"result": result, "id": request_id, "jsonrpc": "2.0"})


def _request_id(body: Any) -> RequestId:
    """Return the id to answer with: null where the request has none that JSON-RPC allows."""
    given = body.get("id") if isinstance(body, dict) else None
    if isinstance(given, str):
        return given if is_text(given) else None
    return given if isinstance(given, int) and not isinstance(given, bool) else None


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


# ── GetContext and GetContexts ────────────────────────────────────────────────────────────────────────────────────────

DEFAULT_CONTEXTS, MAX_CONTEXTS = 50, 100
"""How many contexts are listed at once where nothing is said, and at the most."""


def context_methods(conversations: Conversations) -> dict[str, OwnMethod]:
    """Return the methods by their names; each name has one protocol version.

    The older names answer in v0.3's types. Params are read in either spelling, as Aion's own servers do.
    """

    async def in_v1(params: Mapping[str, Any], call: CallContext) -> Any:
        return _v1(await _get(conversations, params, call))

    async def in_v03(params: Mapping[str, Any], call: CallContext) -> Any:
        return _v03(await _get(conversations, params, call))

    async def ids(params: Mapping[str, Any], call: CallContext) -> Any:
        return await _ids(conversations, params, call)

    return {
        "GetContext": OwnMethod(V1, in_v1),
        "GetContexts": OwnMethod(V1, ids),
        "context/get": OwnMethod(V03, in_v03),
        "contexts/get": OwnMethod(V03, ids),
    }


async def _get(conversations: Conversations, params: Mapping[str, Any], call: CallContext) -> Conversation:
    context_id = _given(params, "contextId", "context_id")
    if not isinstance(context_id, str) or not is_id(context_id):
        raise InvalidMessage(f"contextId names the context, and has to be {ID_RULE}.", field="contextId")
    length, offset = _window(params)
    return await conversations.get(call, context_id, length=length, offset=offset)


async def _ids(conversations: Conversations, params: Mapping[str, Any], call: CallContext) -> list[str]:
    length, offset = _window(params)
    if length is not None and length > MAX_CONTEXTS:
        raise InvalidMessage(
            f"historyLength is {length}: give at most {MAX_CONTEXTS}, and read on by historyOffset.",
            field="historyLength",
        )
    return list(await conversations.ids(call, length=DEFAULT_CONTEXTS if length is None else length, offset=offset))


def _window(params: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return how many are asked for, None where nothing is said, and how many of the newest are passed over."""
    return (
        _number(params, "historyLength", "history_length"),
        _number(params, "historyOffset", "history_offset") or 0,
    )


def _v1(found: Conversation) -> dict[str, Any]:
    return {
        "contextId": found.context_id,
        "history": [MessageToDict(message) for message in found.history],
        "artifacts": [MessageToDict(artifact) for artifact in found.artifacts],
        "status": MessageToDict(found.status),
    }


def _v03(found: Conversation) -> dict[str, Any]:
    status = conversions.to_compat_task_status(found.status)
    return {
        "contextId": found.context_id,
        "history": [_json(conversions.to_compat_message(message)) for message in found.history],
        "artifacts": [_json(conversions.to_compat_artifact(artifact)) for artifact in found.artifacts],
        "status": _json(status),
    }


def _json(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _given(params: Mapping[str, Any], name: str, older: str) -> Any:
    return params.get(name, params.get(older))


def _number(params: Mapping[str, Any], name: str, older: str) -> int | None:
    given = _given(params, name, older)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise InvalidMessage(f"{name} has to be a whole number, 0 or more.", field=name)
    return given
