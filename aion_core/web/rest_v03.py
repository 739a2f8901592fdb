"""The HTTP+JSON binding of v0.3, below /v1: its paths, and its types as its proto file writes them in JSON.

That is what the SDKs of v0.3 send and read over REST; JSON-RPC's types, with their `kind`, are taken in a message too,
since the specification of v0.3 shows these. As in any proto file, a configuration that does not say `blocking` is not
blocking; a message without a configuration is. The SDK's own adapter is not used: it reads a body without limits, says
what failed inside, and knows neither how to delete a push config nor how to number the events of a stream.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.json_format import MessageToDict
from starlette.responses import JSONResponse, Response

from aion_core.protocol.card import card_v03
from aion_core.protocol.errors import invalid_params
from aion_core.protocol.types import Event, ListTasksRequest, SendMessageRequest, Task
from aion_core.web.body import StrictRequest
from aion_core.web.errors import v03_rest_error, v03_rest_error_body
from aion_core.web.http_binding import HttpBinding, Paths, body_of
from aion_core.web.params import read_params, read_query
from aion_core.web.request_context import V03
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.sse import Dialect, open_stream, v03_event
from aion_core.web.v03 import core_request, read_v03

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
            return await open_stream(self._handler.batches(asked, context), REST_V03)
        if operation == "subscribe":
            subscribe = pb.SubscribeToTaskRequest(id=request.path_params["id"])
            return await open_stream(self._handler.batches(subscribe, context), REST_V03)
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
