"""Table of the operations that v0.3 has, with their conversions."""

from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.compat.v0_3.proto_utils import ToProto
from a2a.types import a2a_pb2 as pb

from aion_core.engine.listing.conversations import Conversation
from aion_core.protocol.card_v03 import card_v03
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import AgentCard
from aion_core.web.request.body import StrictRequest
from aion_core.web.v03.conversion import V03Conversion
from aion_core.web.v03.http_forms import reads_kinds_of_card
from aion_core.web.v03.http_message import read_message
from aion_core.web.v03.jsonrpc_types import core_request, dump
from aion_core.web.v03.proto import response_json, task_json
from aion_core.web.v03.push_configs import (
    read_create_config,
    read_delete_config,
    read_get_config,
    read_list_configs,
    write_config,
    write_config_http,
    write_configs_http,
)
from aion_core.web.v03.tasks import read_cancel, read_get, read_list, read_subscribe, write_answer, write_page


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
    "SendMessage": V03Conversion(v03.SendMessageRequest, core_request, write_answer, read_message, response_json),
    "SendStreamingMessage": V03Conversion(v03.SendStreamingMessageRequest, core_request, read_http=read_message),
    "GetTask": V03Conversion(
        v03.GetTaskRequest,
        conversions.to_core_get_task_request,
        conversions.to_compat_task,
        read_get,
        task_json,
    ),
    "ListTasks": V03Conversion(
        write=write_page, read_http=read_list, write_http=lambda page: write_page(page, task_json)
    ),
    "CancelTask": V03Conversion(
        v03.CancelTaskRequest,
        conversions.to_core_cancel_task_request,
        conversions.to_compat_task,
        read_cancel,
        task_json,
    ),
    "SubscribeToTask": V03Conversion(
        v03.TaskResubscriptionRequest, conversions.to_core_subscribe_to_task_request, read_http=read_subscribe
    ),
    "CreateTaskPushNotificationConfig": V03Conversion(
        v03.SetTaskPushNotificationConfigRequest,
        conversions.to_core_create_task_push_notification_config_request,
        write_config,
        read_create_config,
        write_config_http,
    ),
    "GetTaskPushNotificationConfig": V03Conversion(
        v03.GetTaskPushNotificationConfigRequest,
        conversions.to_core_get_task_push_notification_config_request,
        write_config,
        read_get_config,
        write_config_http,
    ),
    "ListTaskPushNotificationConfigs": V03Conversion(
        v03.ListTaskPushNotificationConfigRequest,
        conversions.to_core_list_task_push_notification_config_request,
        lambda page: [write_config(config) for config in page.configs],
        read_list_configs,
        write_configs_http,
    ),
    "DeleteTaskPushNotificationConfig": V03Conversion(
        v03.DeleteTaskPushNotificationConfigRequest,
        conversions.to_core_delete_task_push_notification_config_request,
        read_http=read_delete_config,
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
