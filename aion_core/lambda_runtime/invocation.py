"""What `next` gave, as an ASGI app wants to see it."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

from mangum import Mangum
from mangum.types import ASGI, LambdaContext, Scope

from .settings import Settings


class NotAnHttpEvent(Exception):
    """The event did not come from an HTTP front (or its JSON is broken), so no ASGI app can answer it."""


@dataclass(frozen=True)
class Invocation:
    """One answer of the Runtime API's `next`."""

    request_id: str
    deadline_ms: int
    payload: bytes
    function_arn: str = ""
    trace_id: str | None = None
    tenant_id: str | None = None
    # Which attempt at the request this is; some environments give it, and want it back with the answer.
    invocation_id: str | None = None

    @classmethod
    def from_answer(cls, headers: Mapping[str, str], payload: bytes) -> Self:
        """Read the headers (their names in lower case); KeyError or ValueError if one that is promised is not there."""
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
        """How long until Lambda ends the invocation; negative when it should have."""
        return self.deadline_ms / 1000 - time.time()


@dataclass(frozen=True)
class InvocationContext:
    """Who was invoked and until when, under the names of Lambda's own context object, so that Powertools can use it."""

    aws_request_id: str
    invoked_function_arn: str
    deadline_ms: int
    function_name: str
    function_version: str
    memory_limit_in_mb: int
    log_group_name: str
    log_stream_name: str
    tenant_id: str | None = None
    # Only a direct Invoke carries these, and a direct Invoke is no HTTP event.
    identity: None = None
    client_context: None = None

    @classmethod
    def of(cls, invocation: Invocation, settings: Settings) -> Self:
        """The context of this invocation of this function."""
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
        """How long until Lambda ends the invocation; never negative."""
        return max(0, self.deadline_ms - int(time.time() * 1000))


class HttpRequest(NamedTuple):
    """An HTTP event in ASGI's words."""

    scope: Scope
    body: bytes


class EventReader:
    """Turns Lambda's HTTP events into ASGI requests by mangum's mapping."""

    def __init__(self, app: ASGI) -> None:
        self._mangum = Mangum(app, lifespan="off")

    def read(self, payload: bytes, context: InvocationContext) -> HttpRequest:
        """Return the request that the event describes, or raise `NotAnHttpEvent`."""
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise NotAnHttpEvent("the event is not JSON") from error
        if not isinstance(event, dict):
            raise NotAnHttpEvent("the event is not a JSON object")
        try:
            handler = self._mangum.infer(event, cast("LambdaContext", context))
            request = HttpRequest(handler.scope, handler.body)
        # mangum says RuntimeError of an event it does not know. One that only resembles an HTTP event (a WebSocket
        # event, say) fails in the mapping, wherever the first field is missing.
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise NotAnHttpEvent("the event did not come from an HTTP front") from error
        return request._replace(scope={**request.scope, "headers": _headers(request.scope, event)})


def _headers(scope: Scope, event: Mapping[str, Any]) -> list[list[bytes]]:
    """The scope's headers, repeated cookies put right.

    mangum joins a repeated header with a comma, as RFC 9110 (5.3) has it. Cookies, which HTTP/2 clients send as
    several headers, are the exception: a semicolon joins them (RFC 9113, 8.2.3).
    """
    repeated = event.get("multiValueHeaders") or {}
    cookies = next((values for name, values in repeated.items() if name.lower() == "cookie"), None)
    if not cookies:
        return list(scope["headers"])
    others = [header for header in scope["headers"] if header[0] != b"cookie"]
    return [*others, [b"cookie", "; ".join(cookies).encode()]]
