"""v0.3 of the protocol: its request types, its JSON-RPC methods, and its HTTP+JSON binding below /v1.

JSON-RPC is the SDK's adapter, except for what a client would stumble over; each override says what that is. REST has the
types as the proto file of v0.3 writes them in JSON, which its SDKs send and read; JSON-RPC's types, with their `kind`, are
taken in a message too, since the specification of v0.3 shows these. As in any proto file, a configuration that does not
say `blocking` is not blocking; a message without a configuration is. The SDK's own REST adapter is not used: it reads a
body without limits, exposes internal errors, and can neither delete a push config nor number the events of a stream.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.server.context import ServerCallContext
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher  # noqa: F401  # before the adapter: see there
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, InternalError, InvalidParamsError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from aion_core.protocol.errors import INTERNAL, invalid_params
from aion_core.protocol.message_rules import check_history_length
from aion_core.web.errors import rpc_error
from aion_core.web.request_body import BASE64
from aion_core.web.request_context import V03, VERSION, CallContextBuilder
from aion_core.web.request_handler import AionRequestHandler, wire_errors
from aion_core.web.sse import EventStream, RequestId, jsonrpc_v03

from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter  # isort: skip
import base64
import json
from collections.abc import Awaitable, Callable
from typing import ClassVar

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.compat.v0_3.request_handler import RequestHandler03
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.json_format import MessageToDict
from starlette.responses import Response

from aion_core.protocol.card import card_v03
from aion_core.protocol.types import Event, ListTasksRequest, SendMessageRequest, Task
from aion_core.web.errors import v03_rest_error, v03_rest_error_body
from aion_core.web.request_body import StrictRequest, read_params, read_query
from aion_core.web.rest import HttpBinding, Paths, body_of
from aion_core.web.sse import Dialect, v03_event

# ── Request types ─────────────────────────────────────────────────────────────────────────────────────────────────────

M = TypeVar("M", bound=BaseModel)


def read_v03(given: Mapping[str, Any], model: type[M]) -> M:
    """Return what is given as one of v0.3's types; raises InvalidParamsError that names each field that is wrong."""
    params = given.get("params", given)
    _check_files(params.get("message") if isinstance(params, dict) else None)
    if isinstance(params, dict) and not isinstance(params.get("pushNotificationConfigId", ""), str):
        # The SDK's model reads past it, and takes the task's config to be asked for.
        raise invalid_params("pushNotificationConfigId has to be a text.", "pushNotificationConfigId")
    try:
        read = model.model_validate(given)
    except ValidationError as error:
        raise _bad_params(error) from error
    asked = getattr(read, "params", read)
    for holder, before in ((asked, ""), (getattr(asked, "configuration", None), "configuration.")):
        length = getattr(holder, "history_length", None)
        if length is not None:
            with wire_errors():
                check_history_length(length, f"{before}historyLength")
    return read


def core_request(request: Any) -> pb.SendMessageRequest:
    """Return the v0.3 request in the domain's types.

    Raises InvalidParamsError where a part cannot be read, such as bad base64, which the SDK lets fail as internal.
    """
    try:
        return conversions.to_core_send_message_request(request)
    except A2AError:
        raise
    except Exception as error:  # binascii, protobuf and the SDK each raise their own
        raise InvalidParamsError(f"A part of message cannot be read: {error}.") from error


def _check_files(message: Any) -> None:
    """Refuse a file of a v0.3 message that the SDK's models read as another one than was sent.

    They take what is no base64 for less than it is, and one of bytes and uri where both are given. Raises
    InvalidParamsError; whatever else may be wrong with the message is theirs to say.
    """
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        file = part.get("file") if isinstance(part, dict) else None
        given = file if isinstance(file, dict) else {}
        where = f"message.parts[{index}].file"
        if given.get("bytes") is not None and given.get("uri") is not None:
            raise invalid_params(f"{where} has both bytes and uri: give it one of them.", where)
        if isinstance(given.get("bytes"), str) and not BASE64.fullmatch(given["bytes"]):
            raise invalid_params(f"{where}.bytes is no base64.", f"{where}.bytes")


def _bad_params(error: ValidationError) -> InvalidParamsError:
    """Return the refusal of params that are not as v0.3 has them, with each field that is wrong."""
    problems: dict[str, str] = {}
    for problem in error.errors():
        field, message = _field(problem["loc"]), problem["msg"]
        if part := _PART.match(field):
            # A part is a union: each of its branches complains, and none of the complaints says what is the matter.
            field, message = part[0], _PART_RULE
        where = field or "params"
        is_missing = problem["type"] == "missing" and message is not _PART_RULE
        said = "is missing: it has to be given." if is_missing else f"cannot be used: {_small(message)}."
        problems.setdefault(where, f"{where} {said}")
    return InvalidParamsError(
        next(iter(problems.values())),
        data={"errors": [{"field": field, "message": sentence} for field, sentence in problems.items()]},
    )


def _small(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}"


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


# ── JSON-RPC ──────────────────────────────────────────────────────────────────────────────────────────────────────────

# The SDK's dispatcher imports this adapter; imported the other way round the two make a circle.

EXTENDED_CARD = "agent/getAuthenticatedExtendedCard"


class Handler03(RequestHandler03):
    """The SDK's v0.3 operations, with the extended card as v0.3 clients get the public one."""

    async def on_get_extended_agent_card(
        self, request: v03.GetAuthenticatedExtendedCardRequest, context: ServerCallContext
    ) -> v03.AgentCard:
        """Return the extended card in v0.3's type."""
        card = await self.request_handler.on_get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context)
        return card_v03(card)


class V03Adapter(JSONRPC03Adapter):
    """The v0.3 methods, over the same handler; v0.3 knows no tenants."""

    def __init__(self, handler: AionRequestHandler, builder: CallContextBuilder) -> None:
        super().__init__(handler, builder)
        self._handler = handler
        self.handler = Handler03(handler)

    async def handle_request(self, request_id: RequestId, method: str, body: dict[str, Any], request: Request) -> Any:
        """Answer a v0.3 request: bad params are -32602 here, -32600 in the SDK."""
        # The SDK's annotation does not say of what they are classes.
        model: Any = self.METHOD_TO_MODEL[method]
        try:
            read_v03(body, model)
        except InvalidParamsError as error:
            return self._generate_error_response(request_id, error)
        return await super().handle_request(request_id, method, body, request)

    def _generate_error_response(self, request_id: RequestId, error: Any) -> JSONResponse:
        # The SDK's says what an unexpected exception said, and leaves the typed details out.
        return rpc_error(request_id, error)

    async def _process_non_streaming_request(
        self, request_id: RequestId, request_obj: Any, context: ServerCallContext
    ) -> JSONResponse:
        # The SDK looks for the version in the header once more.
        context.state["headers"] = {**context.state["headers"], VERSION: V03}
        if isinstance(request_obj, v03.SendMessageRequest):
            core_request(request_obj)
        with _unexpected():
            response: JSONResponse = await super()._process_non_streaming_request(request_id, request_obj, context)
        if isinstance(request_obj, v03.DeleteTaskPushNotificationConfigRequest):
            # The SDK drops the result, which is null, and JSON-RPC wants either a result or an error.
            return JSONResponse({"jsonrpc": "2.0", "id": request_id, "result": None})
        return response

    async def _process_streaming_request(
        self, request_id: RequestId, request_obj: Any, context: ServerCallContext
    ) -> Any:
        if isinstance(request_obj, v03.TaskResubscriptionRequest):
            core: Any = conversions.to_core_subscribe_to_task_request(request_obj)
        else:
            core = core_request(request_obj)
        with _unexpected():
            return EventStream(*await self._handler.opened(core, context), jsonrpc_v03(request_id))


@contextmanager
def _unexpected() -> Iterator[None]:
    """Turn an unexpected error into the protocol's: the SDK's adapter would log it a second time."""
    try:
        yield
    except A2AError:
        raise
    except Exception as error:
        raise InternalError(INTERNAL) from error


# ── HTTP+JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_TASK = "/v1/tasks/{id}"
_CONFIGS = f"{_TASK}/pushNotificationConfigs"

_CANCELED = {"TASK_STATE_CANCELLED": "TASK_STATE_CANCELED"}
"""The one state that v0.3's proto file spells otherwise than v1.0's."""


def _encode(event: Event) -> str:
    return json.dumps(MessageToDict(ToProto.stream_response(v03_event(event).result)), ensure_ascii=False)


REST_V03 = Dialect(_encode, v03_rest_error_body)
"""How it writes a stream."""


class RestV03(HttpBinding):
    """v0.3's; it knows no tenants."""

    version = V03
    paths: ClassVar[Paths] = {
        "/v1/message:send": {"POST": "send"},
        "/v1/message:stream": {"POST": "stream"},
        "/v1/tasks": {"GET": "list_tasks"},
        f"{_TASK}:cancel": {"POST": "cancel"},
        f"{_TASK}:subscribe": {"POST": "subscribe", "GET": "subscribe"},
        _TASK: {"GET": "get_task"},
        _CONFIGS: {"POST": "create_config", "GET": "list_configs"},
        f"{_CONFIGS}/{{config_id:path}}": {"GET": "get_config", "DELETE": "delete_config"},
        "/v1/card": {"GET": "card"},
        # As an older text has it (D4).
        "/v1/agent/authenticatedExtendedCard": {"GET": "card"},
    }
    reads_card = frozenset({"card"})

    async def operate(self, operation: str, request: StrictRequest) -> Response:
        """Answer the operation; raises the protocol's errors."""
        context = self._builder.build(request)
        if operation == "stream":
            asked = await _message(request)
            return EventStream(*await self._handler.opened(asked, context), REST_V03)
        if operation == "subscribe":
            subscribe = pb.SubscribeToTaskRequest(id=request.path_params["id"])
            return EventStream(*await self._handler.opened(subscribe, context), REST_V03)
        return JSONResponse(await _UNARY[operation](self._handler, request, context))

    def refuse(self, error: Exception, http: int | None = None) -> JSONResponse:
        """Return the error as v0.3's clients read it."""
        return v03_rest_error(error, http)


async def _send(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    said = await handler.on_message_send(await _message(request), context)
    old = conversions.to_compat_task(said) if isinstance(said, Task) else conversions.to_compat_message(said)
    return MessageToDict(ToProto.task_or_message(old))


async def _get_task(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    asked = read_params(
        {**read_query(request.query_params, pb.GetTaskRequest), **request.path_params}, pb.GetTaskRequest
    )
    if asked.history_length == 0:
        # In v0.3 that is no limit.
        asked.ClearField("history_length")
    return _task(await handler.on_get_task(asked, context))


async def _list_tasks(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    # v0.3 lists tasks over REST only, and says no more of it: it is asked for as in v1.0, and answered in its own types.
    # A state may be asked for by the name that it is answered by.
    params = read_query(request.query_params, ListTasksRequest)
    if "status" in params:
        params["status"] = _CANCELED.get(params["status"], params["status"])
    asked = read_params(params, ListTasksRequest)
    page = await handler.on_list_tasks(asked, context)
    return {
        "tasks": [_task(task) for task in page.tasks],
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    }


async def _cancel(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    # Its body names the task once more.
    await body_of(request, may_lack=True)
    task = await handler.on_cancel_task(pb.CancelTaskRequest(id=request.path_params["id"]), context)
    if task is None:
        raise TaskNotFoundError
    return _task(task)


async def _create_config(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    body = await body_of(request)
    # The proto file wraps the config; a2a-js sends it bare.
    given = body.get("config", body)
    read = read_params(given, pb03.TaskPushNotificationConfig).push_notification_config
    core = conversions.to_core_push_notification_config(FromProto.push_notification_config(read))
    core.task_id = request.path_params["id"]
    core.id = core.id or read_params(body, pb03.CreateTaskPushNotificationConfigRequest).config_id
    return _config(await handler.on_create_task_push_notification_config(core, context))


async def _get_config(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    path = request.path_params
    asked = pb.GetTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])
    return _config(await handler.on_get_task_push_notification_config(asked, context))


async def _list_configs(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    model = pb.ListTaskPushNotificationConfigsRequest
    asked = read_params({**read_query(request.query_params, model), "taskId": request.path_params["id"]}, model)
    listed = await handler.on_list_task_push_notification_configs(asked, context)
    more = {"nextPageToken": listed.next_page_token} if listed.next_page_token else {}
    return {"configs": [_config(config) for config in listed.configs], **more}


async def _delete_config(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    path = request.path_params
    asked = pb.DeleteTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])
    await handler.on_delete_task_push_notification_config(asked, context)
    return {}


async def _card(handler: AionRequestHandler, request: StrictRequest, context: ServerCallContext) -> Any:
    card = await handler.on_get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context)
    return card_v03(card).model_dump(mode="json", by_alias=True, exclude_none=True)


_UNARY: dict[str, Callable[[AionRequestHandler, StrictRequest, ServerCallContext], Awaitable[Any]]] = {
    "send": _send,
    "get_task": _get_task,
    "list_tasks": _list_tasks,
    "cancel": _cancel,
    "create_config": _create_config,
    "get_config": _get_config,
    "list_configs": _list_configs,
    "delete_config": _delete_config,
    "card": _card,
}


async def _message(request: StrictRequest) -> SendMessageRequest:
    """Return the body's message in the domain's types; raises InvalidParamsError that names what is wrong with it."""
    body = await body_of(request)
    message = body.get("message")
    if isinstance(message, dict) and ("kind" in message or "parts" in message):
        params = read_v03(body, v03.MessageSendParams)
    else:
        read = read_params(body, pb03.SendMessageRequest)
        for index, part in enumerate(read.request.content):
            if part.WhichOneof("part") is None:
                where = f"message.content[{index}]"
                raise invalid_params(f"{where} has no content: give it one of text, file or data.", where)
            if part.file.file_with_bytes and not _is_base64(part.file.file_with_bytes):
                part.file.file_with_bytes = base64.b64encode(part.file.file_with_bytes)
        params = FromProto.message_send_params(read)
    return core_request(v03.SendMessageRequest(id="", params=params))


def _is_base64(held: bytes) -> bool:
    """Tell whether a file's bytes are base64 once more.

    So v0.3's Python SDK sends and reads them, and its JavaScript SDK does not; answers are as the former has them. A
    file which is nothing but base64 itself is taken for one that was encoded twice.
    """
    try:
        return base64.b64encode(base64.b64decode(held, validate=True)) == held
    except ValueError:
        return False


def _task(task: Task) -> Any:
    return MessageToDict(ToProto.task(conversions.to_compat_task(task)))


def _config(config: pb.TaskPushNotificationConfig) -> Any:
    return MessageToDict(
        ToProto.task_push_notification_config(conversions.to_compat_task_push_notification_config(config))
    )
