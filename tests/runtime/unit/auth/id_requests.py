"""Requests that contain ids, generated from the operations table, so that each new operation is included.

The value of a field is chosen by its name in the operation's protobuf type. A field or an operation without an entry in these
tables fails the tests.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from aion_core.web.operations import OPERATIONS
from aion_core.web.rest.v03 import RestV03
from aion_core.web.rest.v1 import RestV1
from tests.runtime.protocol.dialects import RPC_V03, RestDialect, RestV03Dialect, RpcV03Dialect

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
"""Placeholders of fields with ids, by message and field."""

OWN = {
    "Message.message_id": "m-1",
    "Message.role": "ROLE_USER",
    "Message.parts": [{"text": "hello"}],
    "TaskPushNotificationConfig.id": "c-1",
    "TaskPushNotificationConfig.url": HOOK,
    "GetTaskPushNotificationConfigRequest.id": "c-1",
    "DeleteTaskPushNotificationConfigRequest.id": "c-1",
}
"""Values of required fields."""

UNRELATED = {
    "tenant", "history_length", "page_size", "page_token", "status", "status_timestamp_after", "include_artifacts",
    "metadata", "extensions", "configuration", "authentication", "token",
}  # fmt: skip
"""Fields without ids of stored data. Other tests cover page tokens and tenants."""

ABOUT_CONTEXTS = {"GetContext": {"contextId": "context"}, "GetContexts": {}}
"""Parameters of our own methods, without a protobuf type."""


@dataclass(frozen=True)
class IdRequest:
    """A request with ids in `fields`; placeholders are filled on sending."""

    operation: str
    """Name in v1.0."""
    binding: str
    method: str
    path: str
    """Path template; `{tenant}` is optional."""
    fields: dict[str, Any] = field(hash=False)
    old: bool = False

    @property
    def name(self) -> str:
        """Return the operation, binding, method and path."""
        return f"{self.operation} by {self.binding} {self.method} {self.path}"

    @property
    def tenants(self) -> tuple[str, ...]:
        """Return the tenants for the request; "" for no tenant."""
        if self.old:
            return ("",)
        if self.binding == "JSON-RPC":
            return ("", "red")
        return ("red", "blue") if "{tenant}" in self.path else ("",)

    def names(self, what: str) -> bool:
        """Return True if the request contains an id of this kind, such as `task`."""
        return f"<{what}>" in json.dumps(self.fields)

    def to(self, *, tenant: str = "", **ids: str) -> tuple[str, str, bytes]:
        """Return the HTTP method, target and body, with these ids."""
        params = _filled(self.fields, ids)
        if self.binding == "JSON-RPC":
            if self.old:
                sent = RpcV03Dialect().request(self.operation, params)
                assert sent is not None
                return "POST", "/", sent.body
            params_in_tenant = {**params, **({"tenant": tenant} if tenant else {})}
            envelope = {"jsonrpc": "2.0", "id": 7, "method": self.operation, "params": params_in_tenant}
            return "POST", "/", json.dumps(envelope).encode()
        path = self.path.replace("{tenant}", tenant)
        # Map the placeholders of paths to the names of ids: v0.3 calls the task's id `id`, and v1.0 calls it `taskId`.
        places = {"{taskId}": "taskId", "{config_id:text}": "id", "{id:text}": "id", "{id}": "id"}
        if "{config_id:text}" in path or (self.old and "Configs" in path):
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


async def answered(
    request: IdRequest, send: Callable[..., Awaitable[httpx.Response]], cancel: Callable[[], Awaitable[Any]]
) -> httpx.Response:
    """Return the response. For a subscription, `cancel` is called once it has begun, and ends its task."""
    if request.operation != "SubscribeToTask":
        return await send()
    canceling: list[asyncio.Future[Any]] = []

    def heard() -> None:
        if not canceling:
            canceling.append(asyncio.ensure_future(cancel()))

    answer = await send(heard=heard)
    for each in canceling:
        await each
    return answer


def requests() -> Iterator[IdRequest]:
    """Yield every operation on every path of each version and binding."""
    fields = {
        operation.name: _fields(operation.request.DESCRIPTOR) for operation in OPERATIONS if operation.request
    } | {name: {field: f"<{what}>" for field, what in params.items()} for name, params in ABOUT_CONTEXTS.items()}
    for operation in OPERATIONS:
        name = operation.name
        yield IdRequest(name, "JSON-RPC", "POST", "/", fields[name])
        if operation.v03 and operation.v03.method:
            assert operation.v03.method == RPC_V03.get(name), (
                f"{name}: add it to NAMES in tests/runtime/protocol/dialects.py."
            )
            yield IdRequest(name, "JSON-RPC", "POST", "/", fields[name], old=True)
    for binding in (RestV1, RestV03):
        for path, by_method in binding.endpoints(OPERATIONS).items():
            for method, (operation, _) in by_method.items():
                name = operation.name
                yield IdRequest(name, "REST", method, path, fields[name], old=binding is RestV03)


def _fields(of: Any) -> dict[str, Any]:
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
            assert each.name in UNRELATED, f"{known}: add the field to NAMES, OWN or UNRELATED in {__name__}."
    return found


def _filled(value: Any, ids: dict[str, str]) -> Any:
    """Return the value with the ids in place of their placeholders, without the fields whose id is missing."""
    if isinstance(value, dict):
        filled = {name: _filled(each, ids) for name, each in value.items()}
        return {name: each for name, each in filled.items() if each not in (None, [])}
    if isinstance(value, list):
        return [each for each in (_filled(each, ids) for each in value) if each is not None]
    if isinstance(value, str) and value.startswith("<"):
        return ids.get(value.strip("<>"))
    return value
