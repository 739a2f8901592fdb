"""Mapping of Aion's errors to the protocol's errors (A2A 5.4)."""

from typing import Any, NamedTuple

from a2a.utils import errors as a2a

from aion_core.errors import (
    AionError,
    ClientError,
    ContentTypeNotSupported,
    ContextBusy,
    ContextNotFound,
    InputNotRequired,
    InvalidMessage,
    MessageIdReused,
    NoExtendedCard,
    NotSupported,
    PushConfigNotFound,
    PushNotSupported,
    StoreUnavailable,
    TaskFinished,
    TaskNotCancelable,
    TaskNotFound,
    TooManyPushConfigs,
    TooManyRequests,
)


class ServiceUnavailableError(a2a.InternalError):
    """Protocol error for a temporary failure of the server: a retry may succeed. The SDK has no such error."""


class TooManyRequestsError(a2a.InternalError):
    """Protocol error for a request above the caller's limit: a retry may succeed. The SDK has no such error."""


class MethodNotAllowedError(a2a.MethodNotFoundError):
    """Protocol error for a request with an HTTP method that the path does not accept."""


SDK_ERRORS: dict[type[ClientError], type[a2a.A2AError]] = {
    InvalidMessage: a2a.InvalidParamsError,
    TaskNotFound: a2a.TaskNotFoundError,
    # Use the error for a missing task, because the protocol has no error for a missing context.
    ContextNotFound: a2a.TaskNotFoundError,
    # Report a missing push config as a missing task (A2A 3.1.8).
    PushConfigNotFound: a2a.TaskNotFoundError,
    TaskFinished: a2a.UnsupportedOperationError,
    TaskNotCancelable: a2a.TaskNotCancelableError,
    InputNotRequired: a2a.UnsupportedOperationError,
    MessageIdReused: a2a.InvalidParamsError,
    ContextBusy: a2a.UnsupportedOperationError,
    ContentTypeNotSupported: a2a.ContentTypeNotSupportedError,
    NotSupported: a2a.UnsupportedOperationError,
    NoExtendedCard: a2a.ExtendedAgentCardNotConfiguredError,
    PushNotSupported: a2a.PushNotificationNotSupportedError,
    TooManyPushConfigs: a2a.InvalidParamsError,
    TooManyRequests: TooManyRequestsError,
}
"""Protocol error of the SDK for each type of client error."""


class WireError(NamedTuple):
    """Codes of a protocol error in JSON-RPC and HTTP+JSON."""

    code: int
    """`error.code` in JSON-RPC."""
    http: int
    """HTTP status of the error in HTTP+JSON."""
    status: str
    """`error.status` in HTTP+JSON, the name of a google.rpc.Code."""
    reason: str
    """Reason in the google.rpc.ErrorInfo of the error."""


TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE = -32029, -32053
"""JSON-RPC codes of errors that the SDK lacks. Servers may use -32000 to -32099, except the first ten: A2A has them."""

STANDARD_MESSAGES: dict[int, str] = {
    -32700: "Invalid JSON payload",
    -32600: "Request payload validation error",
    -32601: "Method not found",
    -32602: "Invalid parameters",
    -32603: "Internal error",
    -32001: "Task not found",
    -32002: "Task cannot be canceled",
    -32003: "Push Notification is not supported",
    -32004: "This operation is not supported",
    -32005: "Incompatible content types",
    -32006: "Invalid agent response type",
    -32007: "Authenticated Extended Card not configured",
    # The specification has no words for the last two codes of A2A, so these are the SDK's, and then there are our own.
    -32008: "Extension support required",
    -32009: "Version not supported",
    TOO_MANY_REQUESTS: "Too many requests",
    SERVICE_UNAVAILABLE: "Service unavailable",
}
"""Words that the message of an error begins with: those of A2A 9.5, and for A2A's own codes those of v0.3 8.2.

Clients and test suites look for them. v0.3 has other words for three of JSON-RPC's codes, but only as typical ones.
"""

WIRE_ERRORS: dict[type[Exception], WireError] = {
    **{
        kind: WireError(a2a.JSON_RPC_ERROR_CODE_MAP[kind], mapped.http_code, mapped.grpc_status, mapped.reason)
        for kind, mapped in a2a.A2A_ERROR_MAPPING.items()
    },
    # Add the codes of these errors, because the SDK's tables of codes lack them.
    a2a.JSONParseError: WireError(-32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
    MethodNotAllowedError: WireError(-32601, 405, "UNIMPLEMENTED", "METHOD_NOT_FOUND"),
    TooManyRequestsError: WireError(TOO_MANY_REQUESTS, 429, "RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS"),
    ServiceUnavailableError: WireError(SERVICE_UNAVAILABLE, 503, "UNAVAILABLE", "SERVICE_UNAVAILABLE"),
}
"""Codes of the protocol's errors in both bindings (A2A 5.4)."""

INTERNAL = "Internal error. The operator can find the cause in the log; trying again later may help."
"""Message to the client for an unexpected error. The cause may be confidential."""

RETRY_AFTER = "retryAfterSeconds"
"""Key in the data and ErrorInfo metadata of an error. Its value is the delay before the next attempt."""

MAX_VIOLATIONS = 10
"""Maximum number of invalid fields in an error response."""
MAX_TEXT = 250
"""Maximum number of characters of a field's path or description in an error response."""
MAX_MESSAGE = 1000
"""Maximum number of characters of a message or of a metadata value in an error response."""

DOMAIN = "a2a-protocol.org"
_RPC = "type.googleapis.com/google.rpc."


def to_wire(error: AionError) -> a2a.A2AError:
    """Convert an AionError to a protocol error, with the AionError as cause. Only a ClientError's text is public."""
    refusal = _refusal(error)
    refusal.__cause__ = error
    return refusal


def _refusal(error: AionError) -> a2a.A2AError:
    if isinstance(error, InvalidMessage) and error.field:
        return invalid_params(str(error), error.field)
    if isinstance(error, MessageIdReused):
        return invalid_params(str(error), "message.messageId")
    if isinstance(error, TooManyRequests):
        return TooManyRequestsError(str(error), data={RETRY_AFTER: str(error.seconds)})
    if isinstance(error, ClientError):
        return SDK_ERRORS[type(error)](str(error))
    if isinstance(error, StoreUnavailable):
        return ServiceUnavailableError(
            "The server's store is busy. Try again in a moment; a message with the same messageId is accepted once."
        )
    return a2a.InternalError(INTERNAL)


def invalid_params(message: str, *fields: str) -> a2a.InvalidParamsError:
    """Return the protocol error for invalid fields. `fields` are their paths in the request's JSON."""
    # Name the fields in `errors`, because the SDK converts this list to a google.rpc.BadRequest (A2A 9.5).
    return a2a.InvalidParamsError(message, data={"errors": [{"field": field, "message": message} for field in fields]})


def wire_form(error: Exception) -> tuple[WireError, str, list[dict[str, Any]]]:
    """Return the protocol codes of an error, its public message and its google.rpc details.

    The message begins with the standard message of the code. An unexpected error has a fixed message. Long texts are
    truncated, because they may contain names from the request.
    """
    form = WIRE_ERRORS.get(type(error))
    if form is None or not isinstance(error, a2a.A2AError):
        form, message, data = WIRE_ERRORS[a2a.InternalError], INTERNAL, {}
    else:
        message, data = str(error), error.data or {}
    if not message.startswith(standard := STANDARD_MESSAGES[form.code]):
        message = f"{standard}. {message}"
    # Leave out values other than texts: an ErrorInfo's metadata are texts, and the list of invalid fields belongs in
    # a BadRequest.
    metadata = {key: _cut(value, MAX_MESSAGE) for key, value in data.items() if isinstance(value, str)}
    details: list[dict[str, Any]] = [
        {"@type": f"{_RPC}ErrorInfo", "reason": form.reason, "domain": DOMAIN, "metadata": metadata}
    ]
    if violations := data.get("errors"):
        details.append(
            {
                "@type": f"{_RPC}BadRequest",
                "fieldViolations": [
                    {"field": _cut(violation["field"], MAX_TEXT), "description": _cut(violation["message"], MAX_TEXT)}
                    for violation in violations[:MAX_VIOLATIONS]
                ],
            }
        )
    return form, _cut(message, MAX_MESSAGE), details


_ESCAPED = dict.fromkeys([*range(0x0A), *range(0x0B, 0x20), 0x85, 0x2028, 0x2029], "\N{REPLACEMENT CHARACTER}")
"""Replacements of control characters and line separators, each of which JSON escapes in six bytes (line feed: two)."""
_MAX_ESCAPED = 100
"""Length in characters above which a text loses its control characters, so that its JSON does not grow sixfold."""


def _cut(text: str, most: int) -> str:
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return shown if len(shown) <= _MAX_ESCAPED else shown.translate(_ESCAPED)
