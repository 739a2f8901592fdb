"""Constraints of this server on the fields of requests and responses, as JSON schemas."""

from typing import Any

from aion_core.engine.listing.list_tasks import MAX_PAGE_SIZE
from aion_core.engine.push_config import MAX_PUSH_CONFIGS
from aion_core.protocol.message_rules import MAX_PARTS

Schema = dict[str, Any]
_ID: Schema = {"$ref": "#/components/schemas/Id"}
_MEDIA_TYPE: Schema = {"type": "string", "pattern": "^[a-z]{1,10}/[a-z0-9.+-]{1,20}$"}
_SECRET: Schema = {"type": "string", "maxLength": 4096, "pattern": "^([!-~]([ -~]*[!-~])?)?$"}
_HISTORY_LENGTH: Schema = {
    "type": "integer",
    "minimum": 0,
    "maximum": 2**31 - 1,
    "description": "Number of the newest messages in the history; 0 for an empty history, no value for all messages.",
}

_UUID: Schema = {"type": "string", "format": "uuid"}
PAGE_SIZE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE}
REQUEST_FIELDS: dict[str, Schema] = {
    "SendMessageConfiguration.acceptedOutputModes": {
        "description": "Media types for the client; the server refuses the request if the agent has no matching one.",
        "type": "array",
        "items": _MEDIA_TYPE,
        "maxItems": 20,
    },
    "SendMessageConfiguration.historyLength": _HISTORY_LENGTH,
    "Message.messageId": {"description": "Id from the client; a repeated message has the same id.", **_ID},
    "Message.contextId": _ID,
    "Message.taskId": {"description": "Task to continue; its contextId is optional.", **_ID},
    "Message.role": {"type": "string", "enum": ["ROLE_USER"]},
    "Message.parts": {"description": "At most 1 MiB of text in all parts.", "minItems": 1, "maxItems": MAX_PARTS},
    "Message.referenceTaskIds": {"type": "array", "items": _ID},
    "Part.url": {"type": "string", "minLength": 1},
    "Part.mediaType": {"description": "Must be an input mode of the agent's card or of a skill.", **_MEDIA_TYPE},
    "GetTaskRequest.historyLength": _HISTORY_LENGTH,
    "ListTasksRequest.historyLength": _HISTORY_LENGTH,
    "ListTasksRequest.contextId": _ID,
    "ListTasksRequest.pageSize": {**PAGE_SIZE, "default": 50},
    "ListTasksRequest.pageToken": {"type": "string", "description": "nextPageToken of a page with the same filters."},
    "ListTaskPushNotificationConfigsRequest.pageSize": {**PAGE_SIZE, "default": MAX_PUSH_CONFIGS},
    "ListTaskPushNotificationConfigsRequest.pageToken": {
        "type": "string",
        "description": "nextPageToken of a page of the same task.",
    },
    "TaskPushNotificationConfig.id": _ID,
    "TaskPushNotificationConfig.taskId": _ID,
    "TaskPushNotificationConfig.url": {
        "description": "https URL of a public host; docs/push.md has the rules.",
        "type": "string",
        "format": "uri",
        "maxLength": 2048,
    },
    "TaskPushNotificationConfig.token": {
        "description": "Key of the signature: `whsec_` and 24 to 64 bytes in base64, or any other text for its bytes.",
        **_SECRET,
    },
    "AuthenticationInfo.scheme": {
        "type": "string",
        "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$",
        "examples": ["Bearer", "Basic", "ApiKey"],
    },
    "AuthenticationInfo.credentials": _SECRET,
}
"""JSON schemas of this server's constraints on request fields, by message and field name."""
RESPONSE_FIELDS: dict[str, Schema] = {
    "Task.id": _UUID,
    "TaskStatusUpdateEvent.taskId": _UUID,
    "TaskArtifactUpdateEvent.taskId": _UUID,
    "TaskStatus.timestamp": {"type": "string", "format": "date-time", "pattern": "Z$"},
    "ListTasksResponse.pageSize": PAGE_SIZE,
    "ListTasksResponse.totalSize": {"type": "integer", "minimum": 0},
    "ListTaskPushNotificationConfigsResponse.configs": {"maxItems": MAX_PUSH_CONFIGS},
    "AgentCard.supportedInterfaces": {"minItems": 1},
    "AgentCard.skills": {"minItems": 1},
}
"""JSON schemas of this server's guarantees for response fields, by message and field name."""
PRESENT = {
    "Task.contextId",
    "TaskStatus.timestamp",
    *(f"TaskPushNotificationConfig.{name}" for name in ("id", "taskId", "token")),
}
"""Fields that are optional in the specification, but present in all responses of this server."""
POSSIBLY_ABSENT = {"AgentCard.defaultInputModes", "AgentCard.defaultOutputModes"}
"""Lists that are required in the specification. Protobuf's JSON omits them if they are empty."""
