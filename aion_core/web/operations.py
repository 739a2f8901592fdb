"""The operations of A2A v1.0: what each is asked with, and its answer as JSON, whichever binding it came by."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage

from aion_core.protocol.types import ListTasksRequest, SendMessageRequest, Task
from aion_core.web.request_handler import AionRequestHandler

Answer = Callable[[AionRequestHandler, Any, ServerCallContext], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One of them."""

    request: type[AnyMessage]
    answer: Answer | None = None
    """None where it streams."""
    reads_card: bool = False
    """Whether it is how a client learns what the agent requires, so that nothing is required of it."""


async def _send(handler: AionRequestHandler, params: pb.SendMessageRequest, context: ServerCallContext) -> Any:
    said = await handler.on_message_send(params, context)
    return MessageToDict(
        pb.SendMessageResponse(task=said) if isinstance(said, Task) else pb.SendMessageResponse(message=said)
    )


async def _get_task(handler: AionRequestHandler, params: pb.GetTaskRequest, context: ServerCallContext) -> Any:
    return MessageToDict(await handler.on_get_task(params, context))


async def _list_tasks(handler: AionRequestHandler, params: ListTasksRequest, context: ServerCallContext) -> Any:
    page = await handler.on_list_tasks(params, context)
    listed: dict[str, Any] = {"nextPageToken": "", "pageSize": 0, "totalSize": 0, **MessageToDict(page)}
    listed["tasks"] = listed.get("tasks", [])
    if params.include_artifacts:
        # There with its content, which may be empty, where it is asked for; absent where it is not (spec 3.1.4).
        for task in listed["tasks"]:
            task.setdefault("artifacts", [])
    return listed


async def _cancel_task(handler: AionRequestHandler, params: pb.CancelTaskRequest, context: ServerCallContext) -> Any:
    task = await handler.on_cancel_task(params, context)
    if task is None:
        raise TaskNotFoundError
    return MessageToDict(task)


async def _create_config(
    handler: AionRequestHandler, params: pb.TaskPushNotificationConfig, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_create_task_push_notification_config(params, context))


async def _get_config(
    handler: AionRequestHandler, params: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_get_task_push_notification_config(params, context))


async def _list_configs(
    handler: AionRequestHandler, params: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_list_task_push_notification_configs(params, context))


async def _delete_config(
    handler: AionRequestHandler, params: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
) -> Any:
    await handler.on_delete_task_push_notification_config(params, context)


async def _extended_card(
    handler: AionRequestHandler, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_get_extended_agent_card(params, context))


OPERATIONS: dict[str, Operation] = {
    "SendMessage": Operation(SendMessageRequest, _send),
    "SendStreamingMessage": Operation(SendMessageRequest),
    "GetTask": Operation(pb.GetTaskRequest, _get_task),
    "ListTasks": Operation(ListTasksRequest, _list_tasks),
    "CancelTask": Operation(pb.CancelTaskRequest, _cancel_task),
    "SubscribeToTask": Operation(pb.SubscribeToTaskRequest),
    "CreateTaskPushNotificationConfig": Operation(pb.TaskPushNotificationConfig, _create_config),
    "GetTaskPushNotificationConfig": Operation(pb.GetTaskPushNotificationConfigRequest, _get_config),
    "ListTaskPushNotificationConfigs": Operation(pb.ListTaskPushNotificationConfigsRequest, _list_configs),
    "DeleteTaskPushNotificationConfig": Operation(pb.DeleteTaskPushNotificationConfigRequest, _delete_config),
    "GetExtendedAgentCard": Operation(pb.GetExtendedAgentCardRequest, _extended_card, reads_card=True),
}
"""By their names in the specification, which are JSON-RPC's methods."""
