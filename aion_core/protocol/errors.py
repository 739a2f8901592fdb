"""How the wire puts each error: one table from what happened to the protocol's own errors (spec 5.4, R98, R99)."""

from a2a.utils import errors as a2a

from aion_core.errors import (
    AionError,
    ClientError,
    ContentTypeNotSupported,
    ContextBusy,
    ContextNotFound,
    InvalidMessage,
    MessageIdReused,
    NotSupported,
    PushNotSupported,
    StoreUnavailable,
    TaskFinished,
    TaskNotCancelable,
    TaskNotFound,
)

WIRE: dict[type[ClientError], type[a2a.A2AError]] = {
    InvalidMessage: a2a.InvalidParamsError,
    TaskNotFound: a2a.TaskNotFoundError,
    # The protocol has no word for it; what is not there is a task of that context.
    ContextNotFound: a2a.TaskNotFoundError,
    TaskFinished: a2a.UnsupportedOperationError,
    TaskNotCancelable: a2a.TaskNotCancelableError,
    MessageIdReused: a2a.InvalidParamsError,
    ContextBusy: a2a.UnsupportedOperationError,
    ContentTypeNotSupported: a2a.ContentTypeNotSupportedError,
    NotSupported: a2a.UnsupportedOperationError,
    PushNotSupported: a2a.PushNotificationNotSupportedError,
}
"""What happened → what the wire calls it. The JSON-RPC code and the HTTP status follow from the SDK's own tables."""

INTERNAL = "Something went wrong on the server. The operator finds it in the log; trying again later may help."
"""All that a client learns of what nobody expected."""


def to_wire(error: AionError) -> a2a.A2AError:
    """Return the protocol's error for what happened; a ClientError's sentence goes along, no other text does."""
    if isinstance(error, InvalidMessage) and error.field:
        # The SDK turns `errors` into google.rpc.BadRequest field violations (spec 9.5).
        return a2a.InvalidParamsError(str(error), data={"errors": [{"field": error.field, "message": str(error)}]})
    if isinstance(error, ClientError):
        return WIRE[type(error)](str(error))
    if isinstance(error, StoreUnavailable):
        return a2a.InternalError(
            "The server's store is busy. Try again in a moment; a message with the same messageId is taken once."
        )
    return a2a.InternalError(INTERNAL)
