"""Invocation of the Lambda function, and its context object."""

import time
from collections.abc import Mapping
from typing import Self

from msgspec import Struct

from .settings import RuntimeSettings


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
