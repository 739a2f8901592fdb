"""Dialects: conversion of operations and params from v1.0 to each version and binding."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

Json = Any


@dataclass(frozen=True)
class Sent:
    """HTTP request to send."""

    method: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Dialect(ABC):
    """Protocol version together with a binding."""

    name: str
    version: str
    is_rest = False

    @abstractmethod
    def request(self, operation: str, params: Json) -> Sent | None:
        """Return the request, or `None` for an operation or params outside of this dialect."""


_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"
NAMES = {
    "SendMessage": ("message/send", "POST", "/message:send"),
    "SendStreamingMessage": ("message/stream", "POST", "/message:stream"),
    "GetTask": ("tasks/get", "GET", "/tasks/{id}"),
    "ListTasks": ("", "GET", "/tasks"),
    "CancelTask": ("tasks/cancel", "POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("tasks/resubscribe", "POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("tasks/pushNotificationConfig/set", "POST", _CONFIGS),
    "GetTaskPushNotificationConfig": ("tasks/pushNotificationConfig/get", "GET", f"{_CONFIGS}/{{id}}"),
    "ListTaskPushNotificationConfigs": ("tasks/pushNotificationConfig/list", "GET", _CONFIGS),
    "DeleteTaskPushNotificationConfig": ("tasks/pushNotificationConfig/delete", "DELETE", f"{_CONFIGS}/{{id}}"),
    "GetExtendedAgentCard": ("agent/getAuthenticatedExtendedCard", "GET", "/extendedAgentCard"),
    "GetContext": ("context/get", "", ""),
    "GetContexts": ("contexts/get", "", ""),
}
"""v0.3's JSON-RPC method, and the HTTP method and path, of each operation; "" for none. They are from the specification."""

RPC_V03 = {operation: method for operation, (method, _, _) in NAMES.items() if method}
REST_V1 = {operation: (method, path) for operation, (_, method, path) in NAMES.items() if path}
REST_V03 = {
    **{operation: (method, f"/v1{path}") for operation, (method, path) in REST_V1.items()},
    "GetExtendedAgentCard": ("GET", "/v1/card"),
}


class RpcDialect(Dialect):
    """JSON-RPC 2.0 on one URL."""

    version = "1.0"
    name = "JSON-RPC 1.0"

    def request(self, operation: str, params: Json) -> Sent | None:
        """Build the JSON-RPC request, without `params` if they are None."""
        envelope: dict[str, Json] = {"jsonrpc": "2.0", "id": 7, "method": operation}
        if params is not None:
            envelope["params"] = params
        return Sent("POST", "/", dump(envelope), {"content-type": "application/json"})


class RpcV03Dialect(RpcDialect):
    """v0.3's methods on the same URL."""

    version = "0.3"
    name = "JSON-RPC 0.3"

    def request(self, operation: str, params: Json) -> Sent | None:
        """Build the request with v0.3's method and parameters, or None if v0.3 has no such method."""
        method = RPC_V03.get(operation)
        return super().request(method, _params_v03(operation, params)) if method else None


class RestDialect(Dialect):
    """HTTP+JSON: a path for each operation."""

    version = "1.0"
    name = "HTTP+JSON 1.0"
    is_rest = True
    paths: Mapping[str, tuple[str, str]] = REST_V1
    media_type = "application/a2a+json"

    def request(self, operation: str, params: Json) -> Sent | None:
        """Build the HTTP request; return None if no path exists. The body omits the fields in the path."""
        if operation not in self.paths or not isinstance(params, dict | None):
            return None
        method, path = self.paths[operation]
        rest = dict(params or {})
        for name in ("taskId", "id"):
            if f"{{{name}}}" in path:
                value = rest.pop(name, "")
                if not isinstance(value, str) or not value:
                    return None
                path = path.replace(f"{{{name}}}", quote(value, safe=""))
        if method == "POST" and not operation.startswith("Sub"):
            return Sent(method, path, dump(self.body(operation, rest)), {"content-type": self.media_type})
        if any(isinstance(value, dict | list | None) for value in rest.values()):
            return None
        words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in rest.items()}
        return Sent(method, f"{path}?{urlencode(words)}" if words else path)

    def body(self, operation: str, params: Json) -> Json:
        """Return the params in the form of the body."""
        return params


class RestV03Dialect(RestDialect):
    """v0.3's paths under /v1, with bodies in the JSON of its protobuf messages."""

    version = "0.3"
    name = "HTTP+JSON 0.3"
    paths = REST_V03
    media_type = "application/json"

    def body(self, operation: str, params: Json) -> Json:
        """Return the body in the JSON of v0.3's proto file."""
        if operation in ("SendMessage", "SendStreamingMessage"):
            return _proto_v03(params)
        if operation == "CreateTaskPushNotificationConfig":
            return {"config": {"name": "", "pushNotificationConfig": _push_config_v03(params)}}
        return params


DIALECTS: tuple[Dialect, ...] = (RpcDialect(), RpcV03Dialect(), RestDialect(), RestV03Dialect())


def dump(value: Json) -> bytes:
    """Return the value as JSON; a lone surrogate is escaped."""
    return json.dumps(value).encode()


def body_of(sent: Sent) -> Json:
    """Return the JSON of the request's body."""
    return json.loads(sent.body)


def _params_v03(operation: str, params: Json) -> Json:
    if not isinstance(params, dict):
        return params
    if operation in ("SendMessage", "SendStreamingMessage"):
        older = dict(params)
        if isinstance(message := params.get("message"), dict):
            older["message"] = _message_v03(message)
        if isinstance(configuration := params.get("configuration"), dict):
            older["configuration"] = _configuration_v03(configuration, "pushNotificationConfig")
        return older
    if operation == "CreateTaskPushNotificationConfig":
        older = {name: value for name, value in params.items() if name == "taskId"}
        return {**older, "pushNotificationConfig": _push_config_v03(params)}
    if operation.endswith(("PushNotificationConfig", "PushNotificationConfigs")):
        names = {"taskId": "id", "id": "pushNotificationConfigId"}
        return {names[name]: value for name, value in params.items() if name in names}
    return params


def _message_v03(message: dict[str, Json]) -> dict[str, Json]:
    older = dict(message)
    if isinstance(role := message.get("role"), str):
        older["role"] = role.removeprefix("ROLE_").lower()
    if isinstance(parts := message.get("parts"), list):
        older["parts"] = [_part_v03(part) if isinstance(part, dict) else part for part in parts]
    return older


def _part_v03(part: dict[str, Json]) -> dict[str, Json]:
    older = {name: value for name, value in part.items() if name not in ("mediaType", "filename", "raw", "url")}
    if "text" in part:
        return {"kind": "text", **older}
    if "raw" in part or "url" in part:
        names = {"raw": "bytes", "url": "uri", "mediaType": "mimeType", "filename": "name"}
        return {"kind": "file", **older, "file": {names[name]: part[name] for name in names if name in part}}
    return {"kind": "data", **older} if "data" in part else older


def _configuration_v03(configuration: dict[str, Json], push: str) -> dict[str, Json]:
    older = {"blocking": True, **configuration}
    if "returnImmediately" in older:
        at_once = older.pop("returnImmediately")
        older["blocking"] = not at_once if isinstance(at_once, bool) else at_once
    if "taskPushNotificationConfig" in older:
        older[push] = _push_config_v03(older.pop("taskPushNotificationConfig"))
    return older


def _push_config_v03(config: Json) -> Json:
    if not isinstance(config, dict):
        return config
    older = {name: value for name, value in config.items() if name not in ("taskId", "tenant")}
    if isinstance(given := older.get("authentication"), dict) and "scheme" in given:
        older["authentication"] = {**given, "schemes": [given["scheme"]]}
        del older["authentication"]["scheme"]
    return older


def _proto_v03(params: dict[str, Json]) -> dict[str, Json]:
    older = dict(params)
    if isinstance(message := params.get("message"), dict):
        given = dict(message)
        if "parts" in given:
            parts = given.pop("parts")
            given["content"] = [_proto_part_v03(part) for part in parts] if isinstance(parts, list) else parts
        older["message"] = given
    if isinstance(configuration := params.get("configuration"), dict):
        older["configuration"] = _configuration_v03(configuration, "pushNotification")
    return older


def _proto_part_v03(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    older = {name: value for name, value in part.items() if name not in ("mediaType", "filename", "raw", "url")}
    if "raw" in part or "url" in part:
        names = {"raw": "fileWithBytes", "url": "fileWithUri", "mediaType": "mimeType", "filename": "name"}
        older["file"] = {names[name]: part[name] for name in names if name in part}
    if "data" in part:
        older["data"] = {"data": part["data"]}
    return older
