"""Results and errors of responses, in one form for each version and binding."""

import json
from dataclasses import dataclass
from typing import Any

from tests.runtime.protocol.dialects import Dialect
from tests.support.asgi import AsgiAnswer


@dataclass(frozen=True)
class Error:
    """Row of the error table in A2A 5.4, and the words that its message begins with (A2A 9.5, v0.3 8.2)."""

    code: int
    http: int
    status: str
    reason: str
    words: str


PARSE = Error(-32700, 400, "INVALID_ARGUMENT", "", "Invalid JSON payload")
REQUEST = Error(-32600, 400, "INVALID_ARGUMENT", "", "Request payload validation error")
METHOD = Error(-32601, 404, "NOT_FOUND", "", "Method not found")
PARAMS = Error(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", "Invalid parameters")
NOT_FOUND = Error(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "Task not found")
NOT_CANCELABLE = Error(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", "Task cannot be canceled")
NO_PUSH = Error(
    -32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED", "Push Notification is not supported"
)
UNSUPPORTED = Error(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", "This operation is not supported")
CONTENT_TYPE = Error(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", "Incompatible content types")
NO_EXTENDED_CARD = Error(
    -32007,
    400,
    "FAILED_PRECONDITION",
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    "Authenticated Extended Card not configured",
)
NO_EXTENSION = Error(-32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED", "Extension support required")
VERSION = Error(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", "Version not supported")

JSON = "application/json"
A2A_JSON = "application/a2a+json"


def check_refusal(dialect: Dialect, answer: AsgiAnswer, error: Error) -> str:
    """Check that the response is the error in the dialect's form, and return its message."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        # v0.3 refuses a streaming method by a stream whose only frame is the error.
        assert dialect.name == "JSON-RPC 0.3"
        ((_, data),) = [line.split(":", 1) for line in answer.body.decode().splitlines() if line.startswith("data:")]
        body = json.loads(data)
    else:
        body = json.loads(answer.body)
        # The type follows the request's: see tests/runtime/unit/web/rest/test_v1.py.
        assert answer.headers["content-type"] in ((A2A_JSON, JSON) if dialect.name == "HTTP+JSON 1.0" else (JSON,))
    if not dialect.is_rest:
        assert answer.status in (200, 413), body
        assert body["jsonrpc"] == "2.0"
        assert "result" not in body
        told, details = body["error"], body["error"].get("data", [])
        assert told["code"] == error.code, body
    elif dialect.version == "1.0":
        assert answer.status == error.http, body
        told, details = body["error"], body["error"]["details"]
        assert (told["code"], told["status"]) == (error.http, error.status), body
    else:
        assert answer.status == error.http, body
        # HTTP+JSON 0.3 returns the error without a wrapper, and with the code of JSON-RPC.
        told, details = body, body.get("data", [])
        assert told["code"] == error.code, body
    if error.reason:
        info = details[0]
        assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        assert (info["reason"], info["domain"]) == (error.reason, "a2a-protocol.org")
    message: str = told["message"]
    assert message.startswith(error.words)
    assert len(message) > len(error.words) + 10, f"a remedy too, not only a label: {message}"
    assert "Traceback" not in message
    return message


def result_of(dialect: Dialect, answer: AsgiAnswer) -> Any:
    """Return the result of a unary response."""
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] in ((A2A_JSON, JSON) if dialect.name == "HTTP+JSON 1.0" else (JSON,))
    body = json.loads(answer.body)
    if dialect.is_rest:
        return body
    assert body["jsonrpc"] == "2.0"
    assert body["id"] == 7
    assert "error" not in body, body
    return body["result"]


def events_of(dialect: Dialect, answer: AsgiAnswer) -> list[Any]:
    """Return the results of a stream."""
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.body
    events = []
    for line in answer.body.decode().splitlines():
        if line.startswith("data:"):
            event = json.loads(line.removeprefix("data:"))
            if not dialect.is_rest:
                assert event["id"] == 7
                event = event["result"]
            events.append(event)
    return events


def gist(operation: str, dialect: Dialect, answer: AsgiAnswer) -> str:
    """Return a summary of the response, which must be equal in each protocol version and binding.

    It is a task's state, the kinds of a stream's events, or the length of a list.
    """
    if answer.headers["content-type"].startswith("text/event-stream"):
        return " ".join(_kind(event) for event in events_of(dialect, answer))
    result = result_of(dialect, answer)
    if operation == "GetContexts":
        return f"{len(result)} contexts"
    if operation == "GetContext":
        return f"context, said: {len(result['history'])}"
    if operation == "ListTasks":
        return f"{len(result['tasks'])} of {result['totalSize']}"
    if operation == "ListTaskPushNotificationConfigs":
        # JSON-RPC 0.3 returns the configs as a list, without the wrapper object.
        configs = result if isinstance(result, list) else result.get("configs", [])
        more = isinstance(result, dict) and result.get("nextPageToken")
        return f"{len(configs)} configs{' and more' if more else ''}"
    if not result:
        return "nothing"
    if operation == "GetExtendedAgentCard":
        return f"card of {result['name']}"
    kind = _kind(result)
    if operation == "GetTask":
        return f"{kind}, said: {len(result.get('history', []))}"
    if kind:
        return kind
    config = result.get("pushNotificationConfig", result)
    return f"config {config['id']} of {config['url']}"


_ENVELOPES = {
    "task": "task",
    "message": "message",
    "msg": "message",
    "statusUpdate": "status",
    "artifactUpdate": "artifact",
}
_KINDS = {"task": "task", "message": "message", "status-update": "status", "artifact-update": "artifact"}


def _kind(result: dict[str, Any]) -> str:
    """Return the kind of an event or a result, and its state."""
    if "kind" in result:
        kind, inner = _KINDS[result["kind"]], result
    elif len(result) == 1 and (name := next(iter(result))) in _ENVELOPES:
        kind, inner = _ENVELOPES[name], result[name]
    elif "status" in result:
        kind, inner = "task", result
    else:
        return ""
    if kind in ("task", "status"):
        return f"{kind}:{inner['status']['state'].removeprefix('TASK_STATE_').lower().replace('_', '-').replace('cancelled', 'canceled')}"
    return kind
