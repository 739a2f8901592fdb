"""Convert an invocation of the Lambda function to an ASGI request."""

import json
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

from mangum import Mangum
from mangum.types import ASGI, LambdaContext, Scope
from msgspec import Struct

from .settings import RuntimeSettings


class NotAnHttpEvent(Exception):
    """Error for a Lambda event that is not an HTTP event of API Gateway or a Function URL, or is invalid JSON."""


class Invocation(Struct, frozen=True):
    """Invocation of the Lambda function, from the Runtime API's endpoint `next`."""

    request_id: str
    deadline_ms: int
    payload: bytes
    function_arn: str = ""
    trace_id: str | None = None
    tenant_id: str | None = None
    # Id of this attempt of the invocation. If the Runtime API sends it, the response must repeat it.
    invocation_id: str | None = None

    @classmethod
    def from_response(cls, headers: Mapping[str, str], payload: bytes) -> Self:
        """Build the invocation from the headers and body of a response. Header names are in lower case.

        Raises KeyError or ValueError for a missing or invalid header.
        """
        return cls(
            request_id=headers["lambda-runtime-aws-request-id"],
            deadline_ms=int(headers["lambda-runtime-deadline-ms"]),
            payload=payload,
            function_arn=headers.get("lambda-runtime-invoked-function-arn", ""),
            trace_id=headers.get("lambda-runtime-trace-id"),
            tenant_id=headers.get("lambda-runtime-aws-tenant-id"),
            invocation_id=headers.get("lambda-runtime-invocation-id"),
        )

    def seconds_left(self) -> float:
        """Return the seconds until Lambda ends the invocation. The number is negative after the deadline."""
        return self.deadline_ms / 1000 - time.time()


class InvocationContext(Struct, frozen=True):
    """Context of an invocation, with the attributes of Lambda's context object. Powertools uses them."""

    aws_request_id: str
    invoked_function_arn: str
    deadline_ms: int
    function_name: str
    function_version: str
    memory_limit_in_mb: int
    log_group_name: str
    log_stream_name: str
    tenant_id: str | None = None
    # Leave `identity` and `client_context` empty: only a direct Invoke sets them, and its event is not an HTTP event.
    identity: None = None
    client_context: None = None

    @classmethod
    def of(cls, invocation: Invocation, settings: RuntimeSettings) -> Self:
        """Build the context from an invocation and the settings of the runtime."""
        return cls(
            aws_request_id=invocation.request_id,
            invoked_function_arn=invocation.function_arn,
            deadline_ms=invocation.deadline_ms,
            function_name=settings.function_name,
            function_version=settings.function_version,
            memory_limit_in_mb=settings.memory_limit_in_mb,
            log_group_name=settings.log_group_name,
            log_stream_name=settings.log_stream_name,
            tenant_id=invocation.tenant_id,
        )

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends the invocation, or 0 after the deadline."""
        return max(0, self.deadline_ms - int(time.time() * 1000))


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""Matches a header's name (a token of RFC 9110, 5.6.2)."""


class HttpRequest(NamedTuple):
    """HTTP request of a Lambda event, as an ASGI scope and a body."""

    scope: Scope
    body: bytes


class EventReader:
    """Converts Lambda's HTTP events to ASGI requests with mangum's mapping."""

    def __init__(self, app: ASGI) -> None:
        self._mangum = Mangum(app, lifespan="off")

    def read(self, payload: bytes, context: InvocationContext) -> HttpRequest:
        """Convert the JSON of a Lambda event to an HTTP request. Raises NotAnHttpEvent."""
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise NotAnHttpEvent("the event is not JSON") from error
        if not isinstance(event, dict):
            raise NotAnHttpEvent("the event is not a JSON object")
        event = _with_valid_header_names(event)
        try:
            handler = self._mangum.infer(event, cast("LambdaContext", context))
            request = HttpRequest(handler.scope, handler.body)
        # Catch several errors: mangum raises RuntimeError for an event of an unknown kind, and the others for an event
        # that lacks a field of an HTTP event, such as a WebSocket event.
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise NotAnHttpEvent("the event is not from an HTTP entry point") from error
        changed = {"headers": _headers(request.scope, event), "path": _path(request.scope["path"], event)}
        return request._replace(scope={**request.scope, **changed})


def _path(path: str, event: Mapping[str, Any]) -> str:
    """Return the path for the app. In the event of an HTTP API, the path begins with the stage, which is removed."""
    stage = event["requestContext"].get("stage") if event.get("version") == "2.0" else None
    if stage in (None, "", "$default") or not f"{path}/".startswith(f"/{stage}/"):
        return path
    return path.removeprefix(f"/{stage}") or "/"


def _headers(scope: Scope, event: Mapping[str, Any]) -> list[list[bytes]]:
    """Return the headers of an ASGI scope, with repeated cookie headers joined by a semicolon.

    mangum joins all repeated headers with a comma (RFC 9110 5.3). HTTP/2 clients send cookies in several headers, and
    these must be joined with a semicolon (RFC 9113 8.2.3).
    """
    repeated = event.get("multiValueHeaders") or {}
    cookies = next((values for name, values in repeated.items() if name.lower() == "cookie"), None)
    if not cookies:
        return list(scope["headers"])
    others = [header for header in scope["headers"] if header[0] != b"cookie"]
    return [*others, [b"cookie", "; ".join(cookies).encode()]]


def _with_valid_header_names(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with only those headers that have a valid name.

    A name with non-ASCII characters would make a header lookup in Starlette fail. Converted to lower case, it could
    also become the name of another header, because some non-ASCII letters have an ASCII lower case.
    """
    named = {key: event[key] for key in ("headers", "multiValueHeaders") if isinstance(event.get(key), dict)}
    valid = {
        key: {name: values[name] for name in values if _HEADER_NAME.fullmatch(name)} for key, values in named.items()
    }
    return {**event, **valid} if valid != named else event
