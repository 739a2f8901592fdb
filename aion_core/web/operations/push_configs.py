"""Operations on push notification configs (A2A 3.1.7 to 3.1.10)."""

from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb

from aion_core.protocol.types import to_json
from aion_core.web.operations.operation import (
    AgentServices,
    Body,
    Doc,
    HttpRoute,
    Operation,
    V03Form,
)
from aion_core.web.request_body import StrictRequest, read_params, read_query
from aion_core.web.request_context import call_of, push_version_of

_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"
# The client chooses the id of a push config. The id may contain a slash.
_CONFIG = f"{_CONFIGS}/{{id:path}}"
_CONFIGS_V03 = "/v1/tasks/{id}/pushNotificationConfigs"
_CONFIG_V03 = f"{_CONFIGS_V03}/{{config_id:path}}"

_TAG = "push notifications"
_RESULT = "The push config with its id and token."


async def _create(
    services: AgentServices, request: pb.TaskPushNotificationConfig, context: ServerCallContext
) -> pb.TaskPushNotificationConfig:
    return await services.push.create(call_of(context), request, push_version_of(context))


async def _get(
    services: AgentServices, request: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext
) -> pb.TaskPushNotificationConfig:
    return await services.push.get(call_of(context), request, push_version_of(context))


async def _list(
    services: AgentServices, request: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
) -> pb.ListTaskPushNotificationConfigsResponse:
    return await services.push.list_configs(call_of(context), request)


async def _delete(
    services: AgentServices, request: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
) -> None:
    await services.push.delete(call_of(context), request)


# ── v0.3 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _read_create_v03(request: StrictRequest) -> pb.TaskPushNotificationConfig:
    body = await request.json_object()
    # In the proto file the body has the config in a `config` field. a2a-js sends the config without this field.
    wrapped = read_params(body.get("config", body), pb03.TaskPushNotificationConfig)
    config = conversions.to_core_push_notification_config(
        FromProto.push_notification_config(wrapped.push_notification_config)
    )
    config.task_id = request.path_params["id"]
    config.id = config.id or read_params(body, pb03.CreateTaskPushNotificationConfigRequest).config_id
    return config


async def _read_get_v03(request: StrictRequest) -> pb.GetTaskPushNotificationConfigRequest:
    path = request.path_params
    return pb.GetTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])


async def _read_list_v03(request: StrictRequest) -> pb.ListTaskPushNotificationConfigsRequest:
    model = pb.ListTaskPushNotificationConfigsRequest
    return read_params({**read_query(request.query_params, model), "taskId": request.path_params["id"]}, model)


async def _read_delete_v03(request: StrictRequest) -> pb.DeleteTaskPushNotificationConfigRequest:
    path = request.path_params
    return pb.DeleteTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])


def _write_v03(config: pb.TaskPushNotificationConfig) -> v03.TaskPushNotificationConfig:
    return conversions.to_compat_task_push_notification_config(config)


def _write_http_v03(config: pb.TaskPushNotificationConfig) -> Any:
    return to_json(ToProto.task_push_notification_config(_write_v03(config)))


def _write_page_v03(page: pb.ListTaskPushNotificationConfigsResponse) -> Any:
    more = {"nextPageToken": page.next_page_token} if page.next_page_token else {}
    return {"configs": [_write_http_v03(config) for config in page.configs], **more}


# ── Entries ───────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE_PUSH_CONFIG = Operation(
    "CreateTaskPushNotificationConfig",
    pb.TaskPushNotificationConfig,
    _create,
    response=pb.TaskPushNotificationConfig,
    routes=(HttpRoute("POST", _CONFIGS, Body.REQUIRED),),
    v03=V03Form(
        "tasks/pushNotificationConfig/set",
        v03.SetTaskPushNotificationConfigRequest,
        conversions.to_core_create_task_push_notification_config_request,
        _write_v03,
        routes=(HttpRoute("POST", _CONFIGS_V03),),
        read_http=_read_create_v03,
        write_http=_write_http_v03,
    ),
    doc=Doc(
        "Register a webhook for the task's future events.",
        _TAG,
        "A config with an existing id replaces the stored one; a task has at most ten configs. The `token` is the key of "
        "the signature; the server generates and returns a token if the request has no token.",
        _RESULT,
        example={"url": "https://hooks.example.com/a2a"},
    ),
)

GET_PUSH_CONFIG = Operation(
    "GetTaskPushNotificationConfig",
    pb.GetTaskPushNotificationConfigRequest,
    _get,
    response=pb.TaskPushNotificationConfig,
    routes=(HttpRoute("GET", _CONFIG),),
    v03=V03Form(
        "tasks/pushNotificationConfig/get",
        v03.GetTaskPushNotificationConfigRequest,
        conversions.to_core_get_task_push_notification_config_request,
        _write_v03,
        routes=(HttpRoute("GET", _CONFIG_V03),),
        read_http=_read_get_v03,
        write_http=_write_http_v03,
    ),
    doc=Doc("Get a push config and its token.", _TAG, result=_RESULT),
)

LIST_PUSH_CONFIGS = Operation(
    "ListTaskPushNotificationConfigs",
    pb.ListTaskPushNotificationConfigsRequest,
    _list,
    response=pb.ListTaskPushNotificationConfigsResponse,
    routes=(HttpRoute("GET", _CONFIGS),),
    v03=V03Form(
        "tasks/pushNotificationConfig/list",
        v03.ListTaskPushNotificationConfigRequest,
        conversions.to_core_list_task_push_notification_config_request,
        lambda page: [_write_v03(config) for config in page.configs],
        routes=(HttpRoute("GET", _CONFIGS_V03),),
        read_http=_read_list_v03,
        write_http=_write_page_v03,
    ),
    doc=Doc(
        "List the task's push configs, sorted by id.",
        _TAG,
        result='A page of configs; nextPageToken is missing or "" on the last page.',
    ),
)

DELETE_PUSH_CONFIG = Operation(
    "DeleteTaskPushNotificationConfig",
    pb.DeleteTaskPushNotificationConfigRequest,
    _delete,
    routes=(HttpRoute("DELETE", _CONFIG),),
    v03=V03Form(
        "tasks/pushNotificationConfig/delete",
        v03.DeleteTaskPushNotificationConfigRequest,
        conversions.to_core_delete_task_push_notification_config_request,
        routes=(HttpRoute("DELETE", _CONFIG_V03),),
        read_http=_read_delete_v03,
    ),
    doc=Doc(
        "Delete a push config. The response is the same for a missing config.",
        _TAG,
        result="The config is deleted.",
    ),
)
