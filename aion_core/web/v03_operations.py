"""Operations in A2A v0.3: requests, conversions from and to v1.0, and responses.

The import builds the SDK's models of v0.3, which takes a fifteenth of a cold start. So the bindings import this module
at the first v0.3 request.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidRequestError
from msgspec import Struct
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from aion_core.engine.listing.conversations import Conversation
from aion_core.protocol.card_v03 import card_v03
from aion_core.protocol.types import AgentCard, ListTasksRequest, Message, Task, to_json
from aion_core.web.operations.operation import AgentServices, Json, Operation, write_json
from aion_core.web.request_body import StrictRequest, read_params, read_query
from aion_core.web.request_context import CallContextBuilder, tenant_of
from aion_core.web.sse import EventStream, RequestId, StreamFormat
from aion_core.web.v03 import (
    core_request,
    decodes_files_twice,
    dump,
    prefers_kinds,
    read_message,
    read_v03,
    reads_kinds_of_card,
)
from aion_core.web.v03_proto import response_json, task_json, with_files_encoded_once
from aion_core.web.v03_stream import REST_V03, REST_V03_FILES_ONCE, REST_V03_KINDS, jsonrpc_v03


class V03Conversion(Struct, frozen=True):
    """Conversions of an operation between v0.3 and v1.0.

    `read` and `read_http` convert a v0.3 request to v1.0. `write` converts a v1.0 result to v0.3's JSON-RPC types, with
    their `kind`; `write_http` converts it to the JSON of v0.3's proto file.
    """

    model: type[BaseModel] | None = None
    """The SDK's type of the whole JSON-RPC request. Without a model, `read` receives the params as JSON."""
    read: Callable[[Any], Any] = lambda params: params
    write: Callable[[Any], Any] = lambda result: result
    """Conversion of a v1.0 result to v0.3's types, as JSON or as models of the SDK."""
    read_http: Callable[[StrictRequest], Awaitable[Any]] | None = None
    write_http: Callable[[Any], Json] = write_json
    prefers_kinds: Callable[[StrictRequest], bool] = prefers_kinds
    """Function from an HTTP+JSON request to True if `write` writes its response, or False for `write_http`."""


# ── Responses ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def answer_jsonrpc(
    operation: Operation,
    services: AgentServices,
    builder: CallContextBuilder,
    request_id: RequestId,
    body: dict[str, Any],
    request: StrictRequest,
) -> Response:
    """Execute an operation for a JSON-RPC request of v0.3 and return its response. Raises the protocol's errors."""
    conversion = CONVERSIONS[operation.name]
    if conversion.model is None:
        params = body.get("params", {})
        # Read the tenant for Aion's own methods, because v0.3 itself has no tenants.
        context = builder.build_in(request, tenant_of(params))
    else:
        if request_id is None:
            raise InvalidRequestError(
                'The JSON-RPC request has no "id" of its own beside "method": give it a string or a whole number.'
            )
        params = await request.convert(read_v03, body, conversion.model)
        context = builder.build(request)
    read = await request.convert(conversion.read, params)
    if operation.stream:
        batches = operation.stream(services, read, context)
        return EventStream(await anext(batches, []), batches, jsonrpc_v03(request_id))
    assert operation.run is not None  # noqa: S101
    result = conversion.write(await operation.run(services, read, context))
    return JSONResponse({"id": request_id, "jsonrpc": "2.0", "result": dump(result)})


async def answer_http(
    operation: Operation, services: AgentServices, builder: CallContextBuilder, request: StrictRequest
) -> Response:
    """Execute an operation for an HTTP+JSON request of v0.3 and return its response. Raises the protocol's errors."""
    conversion = CONVERSIONS[operation.name]
    assert conversion.read_http is not None  # noqa: S101  # set if the operation has a route
    context = builder.build(request)
    read = await conversion.read_http(request)
    if operation.stream:
        batches = operation.stream(services, read, context)
        return EventStream(await anext(batches, []), batches, _stream_format(request))
    assert operation.run is not None  # noqa: S101
    result = await operation.run(services, read, context)
    if conversion.prefers_kinds(request):
        written = dump(conversion.write(result))
    else:
        written = conversion.write_http(result)
        written = written if decodes_files_twice(request) else with_files_encoded_once(written)
    return JSONResponse({} if written is None else written)


def _stream_format(request: StrictRequest) -> StreamFormat:
    if prefers_kinds(request):
        return REST_V03_KINDS
    return REST_V03 if decodes_files_twice(request) else REST_V03_FILES_ONCE


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _write_answer(answer: Task | Message) -> v03.Task | v03.Message:
    return conversions.to_compat_task(answer) if isinstance(answer, Task) else conversions.to_compat_message(answer)


async def _read_subscribe(request: StrictRequest) -> pb.SubscribeToTaskRequest:
    return pb.SubscribeToTaskRequest(id=request.path_params["id"])


# ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _read_get(request: StrictRequest) -> pb.GetTaskRequest:
    query = read_query(request.query_params, pb.GetTaskRequest)
    params = read_params({**query, **request.path_params}, pb.GetTaskRequest)
    if params.history_length == 0:
        # Remove a history length of 0, because it means no limit in v0.3.
        params.ClearField("history_length")
    return params


_CANCELED = {"TASK_STATE_CANCELLED": "TASK_STATE_CANCELED"}
"""v1.0's spelling of the canceled state, by the spelling in v0.3's proto file."""


async def _read_list(request: StrictRequest) -> ListTasksRequest:
    # Accept v1.0's parameters, also with v0.3's spelling of a state, because the v0.3 specification defines no
    # parameters for this path.
    params = read_query(request.query_params, ListTasksRequest)
    if "status" in params:
        params["status"] = _CANCELED.get(params["status"], params["status"])
    return read_params(params, ListTasksRequest)


def _write_page(page: pb.ListTasksResponse, write: Callable[[Task], Any] = conversions.to_compat_task) -> Any:
    return {
        "tasks": [write(task) for task in page.tasks],
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    }


async def _read_cancel(request: StrictRequest) -> pb.CancelTaskRequest:
    # Use the id in the path, because the body has at most the task's resource name. Parse the body only to refuse
    # invalid JSON.
    await request.json_object(optional=True)
    return pb.CancelTaskRequest(id=request.path_params["id"])


# ── Push notification configs ─────────────────────────────────────────────────────────────────────────────────────────


async def _read_create_config(request: StrictRequest) -> pb.TaskPushNotificationConfig:
    body = await request.json_object()
    # Accept a body without `config` too: the proto file has this field, but the JavaScript SDK (a2a-js) omits it.
    wrapped = read_params(body.get("config", body), pb03.TaskPushNotificationConfig)
    config = conversions.to_core_push_notification_config(
        FromProto.push_notification_config(wrapped.push_notification_config)
    )
    config.task_id = request.path_params["id"]
    config.id = config.id or read_params(body, pb03.CreateTaskPushNotificationConfigRequest).config_id
    return config


async def _read_get_config(request: StrictRequest) -> pb.GetTaskPushNotificationConfigRequest:
    path = request.path_params
    return pb.GetTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])


async def _read_list_configs(request: StrictRequest) -> pb.ListTaskPushNotificationConfigsRequest:
    model = pb.ListTaskPushNotificationConfigsRequest
    return read_params({**read_query(request.query_params, model), "taskId": request.path_params["id"]}, model)


async def _read_delete_config(request: StrictRequest) -> pb.DeleteTaskPushNotificationConfigRequest:
    path = request.path_params
    return pb.DeleteTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])


def _write_config(config: pb.TaskPushNotificationConfig) -> v03.TaskPushNotificationConfig:
    return conversions.to_compat_task_push_notification_config(config)


def _write_config_http(config: pb.TaskPushNotificationConfig) -> Any:
    return to_json(ToProto.task_push_notification_config(_write_config(config)))


def _write_configs_http(page: pb.ListTaskPushNotificationConfigsResponse) -> Any:
    more = {"nextPageToken": page.next_page_token} if page.next_page_token else {}
    return {"configs": [_write_config_http(config) for config in page.configs], **more}


# ── Extended card and contexts ────────────────────────────────────────────────────────────────────────────────────────


async def _read_card(request: StrictRequest) -> pb.GetExtendedAgentCardRequest:
    return pb.GetExtendedAgentCardRequest()


def _write_card(card: AgentCard) -> Any:
    return dump(card_v03(card))


def _write_card_http(card: AgentCard) -> Any:
    return to_json(ToProto.agent_card(card_v03(card)))


def _write_context(conversation: Conversation) -> dict[str, Any]:
    status = conversions.to_compat_task_status(conversation.status)
    return {
        "contextId": conversation.context_id,
        "history": [dump(conversions.to_compat_message(message)) for message in conversation.history],
        "artifacts": [dump(conversions.to_compat_artifact(artifact)) for artifact in conversation.artifacts],
        "status": dump(status),
    }


CONVERSIONS: dict[str, V03Conversion] = {
    "SendMessage": V03Conversion(v03.SendMessageRequest, core_request, _write_answer, read_message, response_json),
    "SendStreamingMessage": V03Conversion(v03.SendStreamingMessageRequest, core_request, read_http=read_message),
    "GetTask": V03Conversion(
        v03.GetTaskRequest,
        conversions.to_core_get_task_request,
        conversions.to_compat_task,
        _read_get,
        task_json,
    ),
    "ListTasks": V03Conversion(
        write=_write_page, read_http=_read_list, write_http=lambda page: _write_page(page, task_json)
    ),
    "CancelTask": V03Conversion(
        v03.CancelTaskRequest,
        conversions.to_core_cancel_task_request,
        conversions.to_compat_task,
        _read_cancel,
        task_json,
    ),
    "SubscribeToTask": V03Conversion(
        v03.TaskResubscriptionRequest, conversions.to_core_subscribe_to_task_request, read_http=_read_subscribe
    ),
    "CreateTaskPushNotificationConfig": V03Conversion(
        v03.SetTaskPushNotificationConfigRequest,
        conversions.to_core_create_task_push_notification_config_request,
        _write_config,
        _read_create_config,
        _write_config_http,
    ),
    "GetTaskPushNotificationConfig": V03Conversion(
        v03.GetTaskPushNotificationConfigRequest,
        conversions.to_core_get_task_push_notification_config_request,
        _write_config,
        _read_get_config,
        _write_config_http,
    ),
    "ListTaskPushNotificationConfigs": V03Conversion(
        v03.ListTaskPushNotificationConfigRequest,
        conversions.to_core_list_task_push_notification_config_request,
        lambda page: [_write_config(config) for config in page.configs],
        _read_list_configs,
        _write_configs_http,
    ),
    "DeleteTaskPushNotificationConfig": V03Conversion(
        v03.DeleteTaskPushNotificationConfigRequest,
        conversions.to_core_delete_task_push_notification_config_request,
        read_http=_read_delete_config,
    ),
    "GetExtendedAgentCard": V03Conversion(
        v03.GetAuthenticatedExtendedCardRequest,
        conversions.to_core_get_extended_agent_card_request,
        _write_card,
        _read_card,
        _write_card_http,
        reads_kinds_of_card,
    ),
    "GetContext": V03Conversion(write=_write_context),
    "GetContexts": V03Conversion(),
}
"""Conversions of each operation with a v0.3 form, by the operation's name."""
