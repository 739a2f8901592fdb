"""Every request there is that names a thing by its id, made from what the server serves: a new operation is one more.

An operation's fields come from its type in the protocol, and are filled by their names; a field or an operation that
nothing is known of is an error, so that nobody adds one without saying whose things it reaches.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from google.protobuf.descriptor import Descriptor

from aion_core.web.operations import OPERATIONS
from aion_core.web.rest import RestV03, RestV1
from tests.protocol.dialects import RPC_V03, RestDialect, RestV03Dialect, RpcV03Dialect

NEVER_WAS = "00000000-0000-4000-8000-000000000000"
HOOK = "https://hooks.example.org/a"

NAMES = {
    "GetTaskRequest.id": "task",
    "CancelTaskRequest.id": "task",
    "SubscribeToTaskRequest.id": "task",
    "TaskPushNotificationConfig.task_id": "task",
    "GetTaskPushNotificationConfigRequest.task_id": "task",
    "DeleteTaskPushNotificationConfigRequest.task_id": "task",
    "ListTaskPushNotificationConfigsRequest.task_id": "task",
    "Message.task_id": "task",
    "Message.context_id": "context",
    "Message.reference_task_ids": "references",
    "ListTasksRequest.context_id": "context",
}
"""The fields that name something which belongs to somebody: what of it, and where."""

OWN = {
    "Message.message_id": "m-1",
    "Message.role": "ROLE_USER",
    "Message.parts": [{"text": "hello"}],
    "TaskPushNotificationConfig.id": "c-1",
    "TaskPushNotificationConfig.url": HOOK,
    "GetTaskPushNotificationConfigRequest.id": "c-1",
    "DeleteTaskPushNotificationConfigRequest.id": "c-1",
}
"""The fields without which a request is none."""

WHATEVER = {
    "tenant", "history_length", "page_size", "page_token", "status", "status_timestamp_after", "include_artifacts",
    "metadata", "extensions", "configuration", "authentication", "token",
}  # fmt: skip
"""The fields that name nothing of anybody's; a page token and a tenant have tests of their own."""

ABOUT_CONTEXTS = {"GetContext": {"contextId": "context"}, "GetContexts": {}}
"""What the methods beside the protocol's are asked with, which have no type in it."""


@dataclass(frozen=True)
class Request:
    """A request about things that `fields` name; what stands in their place is said as it is sent."""

    operation: str
    """By its name in v1.0."""
    binding: str
    method: str
    path: str
    """The template, with a tenant's place where it has one."""
    fields: dict[str, Any] = field(hash=False)
    old: bool = False

    @property
    def name(self) -> str:
        """What it is, and where it goes."""
        return f"{self.operation} by {self.binding} {self.method} {self.path}"

    @property
    def tenants(self) -> tuple[str, ...]:
        """Some tenants in which it can be asked; "" for none."""
        if self.old:
            return ("",)
        if self.binding == "JSON-RPC":
            return ("", "red")
        return ("red", "blue") if "{tenant}" in self.path else ("",)

    def names(self, what: str) -> bool:
        """Whether it names a task, say."""
        return f"<{what}>" in json.dumps(self.fields)

    def to(self, *, tenant: str = "", **ids: str) -> tuple[str, str, bytes]:
        """The HTTP method, the target and the body; `ids` are those that it names."""
        params = _filled(self.fields, ids)
        if self.binding == "JSON-RPC":
            if self.old:
                sent = RpcV03Dialect().request(self.operation, params)
                assert sent is not None
                return "POST", "/", sent.body
            asked = {**params, **({"tenant": tenant} if tenant else {})}
            envelope = {"jsonrpc": "2.0", "id": 7, "method": self.operation, "params": asked}
            return "POST", "/", json.dumps(envelope).encode()
        path = self.path.replace("{tenant}", tenant)
        # v0.3 calls the task `id` in a path where v1.0 calls it `taskId`.
        places = {"{taskId}": "taskId", "{config_id:path}": "id", "{id:path}": "id", "{id}": "id"}
        if "{config_id:path}" in path or (self.old and "Configs" in path):
            places["{id}"] = "taskId"
        used = set()
        for place, name in places.items():
            if place in path:
                path = path.replace(place, params[name])
                used.add(name)
        assert "{" not in path, path
        left = {name: value for name, value in params.items() if name not in used}
        if self.method == "POST" and "ubscribe" not in path:
            dialect = RestV03Dialect() if self.old else RestDialect()
            return self.method, path, json.dumps(dialect.body(self.operation, left)).encode()
        query = "&".join(f"{name}={value}" for name, value in left.items())
        return self.method, f"{path}?{query}" if query else path, b""


def requests() -> Iterator[Request]:
    """Every operation, on every path of each version and binding."""
    fields = {
        operation.name: _fields(cast("Descriptor", operation.request.DESCRIPTOR))
        for operation in OPERATIONS
        if operation.request
    } | {name: {field: f"<{what}>" for field, what in asked.items()} for name, asked in ABOUT_CONTEXTS.items()}
    for operation in OPERATIONS:
        name = operation.name
        yield Request(name, "JSON-RPC", "POST", "/", fields[name])
        if operation.v03 and operation.v03.method:
            assert operation.v03.method == RPC_V03[name]
            yield Request(name, "JSON-RPC", "POST", "/", fields[name], old=True)
    for binding in (RestV1, RestV03):
        for path, by_method in binding.endpoints(OPERATIONS).items():
            for method, (operation, _) in by_method.items():
                name = operation.name
                yield Request(name, "REST", method, path, fields[name], old=binding is RestV03)


def _fields(of: Descriptor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in of.fields:
        known = f"{of.name}.{each.name}"
        if known in OWN:
            found[each.json_name] = OWN[known]
        elif known in NAMES:
            what = f"<{NAMES[known]}>"
            found[each.json_name] = [what] if what == "<references>" else what
        elif each.message_type is not None and each.name == "message":
            found[each.json_name] = _fields(each.message_type)
        else:
            assert each.name in WHATEVER, f"{known}: say in {__name__} whether it names what belongs to somebody."
    return found


def _filled(value: Any, ids: dict[str, str]) -> Any:
    """The value with the ids in their places; what is not said stands nowhere."""
    if isinstance(value, dict):
        filled = {name: _filled(each, ids) for name, each in value.items()}
        return {name: each for name, each in filled.items() if each not in (None, [])}
    if isinstance(value, list):
        return [each for each in (_filled(each, ids) for each in value) if each is not None]
    if isinstance(value, str) and value.startswith("<"):
        return ids.get(value.strip("<>"))
    return value
