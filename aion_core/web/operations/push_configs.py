"""Operations on push notification configs (A2A 3.1.7 to 3.1.10)."""

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from starlette.convertors import PathConvertor, register_url_convertor

from aion_core.web.operations.operation import Body, Doc, HttpRoute, Operation, V03Form
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.call_context import call_of, push_version_of


class _Text(PathConvertor):
    """Converter of a path parameter of any characters, also slashes and line breaks: clients choose a config's id."""

    regex = "(?s:.*)"


register_url_convertor("text", _Text())

_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"
_CONFIG = f"{_CONFIGS}/{{id:text}}"
_CONFIGS_V03 = "/v1/tasks/{id}/pushNotificationConfigs"
_CONFIG_V03 = f"{_CONFIGS_V03}/{{config_id:text}}"
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


CREATE_PUSH_CONFIG = Operation(
    "CreateTaskPushNotificationConfig",
    pb.TaskPushNotificationConfig,
    _create,
    response=pb.TaskPushNotificationConfig,
    routes=(HttpRoute("POST", _CONFIGS, Body.REQUIRED),),
    v03=V03Form("tasks/pushNotificationConfig/set", routes=(HttpRoute("POST", _CONFIGS_V03),)),
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
    v03=V03Form("tasks/pushNotificationConfig/get", routes=(HttpRoute("GET", _CONFIG_V03),)),
    doc=Doc("Get a push config and its token.", _TAG, result=_RESULT),
)

LIST_PUSH_CONFIGS = Operation(
    "ListTaskPushNotificationConfigs",
    pb.ListTaskPushNotificationConfigsRequest,
    _list,
    response=pb.ListTaskPushNotificationConfigsResponse,
    routes=(HttpRoute("GET", _CONFIGS),),
    v03=V03Form("tasks/pushNotificationConfig/list", routes=(HttpRoute("GET", _CONFIGS_V03),)),
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
    v03=V03Form("tasks/pushNotificationConfig/delete", routes=(HttpRoute("DELETE", _CONFIG_V03),)),
    doc=Doc(
        "Delete a push config. The response is the same for a missing config.",
        _TAG,
        result="The config is deleted.",
    ),
)
