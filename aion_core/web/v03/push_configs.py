"""Conversions of the operations on push configs, from and to v0.3."""

from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.types import a2a_pb2 as pb

from aion_core.protocol.message_json import to_json
from aion_core.web.request.body import StrictRequest
from aion_core.web.request.params import read_params, read_query


async def read_create_config(request: StrictRequest) -> pb.TaskPushNotificationConfig:
    """Return the push config in the body of an HTTP+JSON request."""
    body = await request.json_object()
    # Accept a body without `config` too: the proto file has this field, but the JavaScript SDK (a2a-js) omits it.
    wrapped = read_params(body.get("config", body), pb03.TaskPushNotificationConfig)
    config = conversions.to_core_push_notification_config(
        FromProto.push_notification_config(wrapped.push_notification_config)
    )
    config.task_id = request.path_params["id"]
    config.id = config.id or read_params(body, pb03.CreateTaskPushNotificationConfigRequest).config_id
    return config


async def read_get_config(request: StrictRequest) -> pb.GetTaskPushNotificationConfigRequest:
    """Return the request for the push config in the path."""
    path = request.path_params
    return pb.GetTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])


async def read_list_configs(request: StrictRequest) -> pb.ListTaskPushNotificationConfigsRequest:
    """Return the request for a page of the task's push configs."""
    model = pb.ListTaskPushNotificationConfigsRequest
    return read_params({**read_query(request.query_params, model), "taskId": request.path_params["id"]}, model)


async def read_delete_config(request: StrictRequest) -> pb.DeleteTaskPushNotificationConfigRequest:
    """Return the request to delete the push config in the path."""
    path = request.path_params
    return pb.DeleteTaskPushNotificationConfigRequest(task_id=path["id"], id=path["config_id"])


def write_config(config: pb.TaskPushNotificationConfig) -> v03.TaskPushNotificationConfig:
    """Convert a push config to v0.3's types."""
    return conversions.to_compat_task_push_notification_config(config)


def write_config_http(config: pb.TaskPushNotificationConfig) -> Any:
    """Convert a push config to the JSON of v0.3's proto file."""
    return to_json(ToProto.task_push_notification_config(write_config(config)))


def write_configs_http(page: pb.ListTaskPushNotificationConfigsResponse) -> Any:
    """Convert a page of push configs to the JSON of v0.3's proto file."""
    more = {"nextPageToken": page.next_page_token} if page.next_page_token else {}
    return {"configs": [write_config_http(config) for config in page.configs], **more}
