"""How the wire puts each error: one table from what happened to the protocol's own errors (spec 5.4, R98, R99)."""

from typing import Any, NamedTuple

from a2a.utils import errors as a2a

from aion_core.errors import (
    AionError,
    ClientError,
    ContentTypeNotSupported,
    ContextBusy,
    ContextNotFound,
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
    """The server cannot do it now; the same request may succeed in a moment. The SDK has no name for it."""


class TooManyRequestsError(a2a.InternalError):
    """The caller has asked for too much; the same request may be answered later. The SDK has no name for it."""


class MethodNotAllowedError(a2a.MethodNotFoundError):
    """There is something at the path, and nothing for this HTTP method."""


SDK_ERRORS: dict[type[ClientError], type[a2a.A2AError]] = {
    InvalidMessage: a2a.InvalidParamsError,
    TaskNotFound: a2a.TaskNotFoundError,
    # The protocol has no word for it; what is not there is a task of that context.
    ContextNotFound: a2a.TaskNotFoundError,
    # The specification names this error for it.
    PushConfigNotFound: a2a.TaskNotFoundError,
    TaskFinished: a2a.UnsupportedOperationError,
    TaskNotCancelable: a2a.TaskNotCancelableError,
    MessageIdReused: a2a.InvalidParamsError,
    ContextBusy: a2a.UnsupportedOperationError,
    ContentTypeNotSupported: a2a.ContentTypeNotSupportedError,
    NotSupported: a2a.UnsupportedOperationError,
    NoExtendedCard: a2a.ExtendedAgentCardNotConfiguredError,
    PushNotSupported: a2a.PushNotificationNotSupportedError,
    TooManyPushConfigs: a2a.InvalidParamsError,
    TooManyRequests: TooManyRequestsError,
}
"""What happened → what the wire calls it."""


class WireError(NamedTuple):
    """What each binding says of one kind of error."""

    code: int
    """JSON-RPC's `error.code`."""
    http: int
    """The HTTP status of the REST binding."""
    status: str
    """REST's `error.status`: the name of a google.rpc.Code."""
    reason: str
    """google.rpc.ErrorInfo's reason."""


WIRE_ERRORS: dict[type[Exception], WireError] = {
    **{
        kind: WireError(a2a.JSON_RPC_ERROR_CODE_MAP[kind], mapped.http_code, mapped.grpc_status, mapped.reason)
        for kind, mapped in a2a.A2A_ERROR_MAPPING.items()
    },
    # Missing from the SDK's table.
    a2a.JSONParseError: WireError(-32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
    MethodNotAllowedError: WireError(-32601, 405, "UNIMPLEMENTED", "METHOD_NOT_FOUND"),
    TooManyRequestsError: WireError(-32603, 429, "RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS"),
    ServiceUnavailableError: WireError(-32603, 503, "UNAVAILABLE", "SERVICE_UNAVAILABLE"),
}
"""The protocol's errors in both bindings (spec 5.4)."""

INTERNAL = "Something went wrong on the server. The operator finds it in the log; trying again later may help."
"""All that a client learns of what nobody expected."""

RETRY_AFTER = "retryAfterSeconds"
"""What an error's data, and the metadata of its ErrorInfo, call the time after which to try again."""

DOMAIN = "a2a-protocol.org"
_RPC = "type.googleapis.com/google.rpc."


def to_wire(error: AionError) -> a2a.A2AError:
    """Return the protocol's error, caused by this one; only the sentence of a ClientError is passed on."""
    refusal = _refusal(error)
    refusal.__cause__ = error
    return refusal


def _refusal(error: AionError) -> a2a.A2AError:
    if isinstance(error, InvalidMessage) and error.field:
        return invalid_params(str(error), error.field)
    if isinstance(error, TooManyRequests):
        return TooManyRequestsError(str(error), data={RETRY_AFTER: str(error.seconds)})
    if isinstance(error, ClientError):
        return SDK_ERRORS[type(error)](str(error))
    if isinstance(error, StoreUnavailable):
        return ServiceUnavailableError(
            "The server's store is busy. Try again in a moment; a message with the same messageId is taken once."
        )
    return a2a.InternalError(INTERNAL)


def invalid_params(sentence: str, *fields: str) -> a2a.InvalidParamsError:
    """Return the refusal of a request whose fields, by their paths in the wire's own names, cannot be used."""
    # `errors` is where the SDK keeps what becomes google.rpc.BadRequest (spec 9.5).
    return a2a.InvalidParamsError(
        sentence, data={"errors": [{"field": field, "message": sentence} for field in fields]}
    )


def wire_form(error: Exception) -> tuple[WireError, str, list[dict[str, Any]]]:
    """Return what each binding says of the error, the sentence, and the google.rpc details.

    What nobody expected says nothing but that it happened.
    """
    form = WIRE_ERRORS.get(type(error))
    if form is None or not isinstance(error, a2a.A2AError):
        form, sentence, data = WIRE_ERRORS[a2a.InternalError], INTERNAL, {}
    else:
        sentence, data = str(error), error.data or {}
    # An ErrorInfo's metadata are texts; the fields have a detail of their own.
    metadata = {key: value for key, value in data.items() if isinstance(value, str)}
    details: list[dict[str, Any]] = [
        {"@type": f"{_RPC}ErrorInfo", "reason": form.reason, "domain": DOMAIN, "metadata": metadata}
    ]
    if violations := data.get("errors"):
        details.append(
            {
                "@type": f"{_RPC}BadRequest",
                "fieldViolations": [
                    {"field": violation["field"], "description": violation["message"]} for violation in violations
                ],
            }
        )
    return form, sentence, details
