"""A refusal as JSON-RPC: the protocol's code, google.rpc details, and a sentence that says what to mend."""

import logging
from typing import Any

from a2a.server.jsonrpc_models import JSONRPCError
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, JSONParseError

from aion_core.protocol.errors import INTERNAL

logger = logging.getLogger(__name__)

INTERNAL_CODE, METHOD_NOT_FOUND_CODE, PARSE_ERROR_CODE = -32603, -32601, -32700

_PARSER_WORDS = 300
"""How much of what a parser says of the client's own input is passed on."""


def error_body(request_id: str | int | None, error: Exception) -> dict[str, Any]:
    """Return the JSON-RPC error response; what nobody expected says nothing but that it happened."""
    body = build_error_response(request_id, _spoken(error))
    described: dict[str, Any] = body["error"]
    if described["code"] == INTERNAL_CODE and not isinstance(error, A2AError):
        described["message"] = INTERNAL
        described.pop("data", None)
    logger.info("Refused with %s: %s", described["code"], described["message"].replace("\n", " "))
    return body


def _spoken(error: Exception) -> A2AError | JSONRPCError:
    """Return the error with a sentence of use: the SDK hides what its parsers said in the details."""
    if isinstance(error, InvalidParamsError | InvalidRequestError) and error.data and "parseError" in error.data:
        said = str(error.data["parseError"])[:_PARSER_WORDS]
        return type(error)(f"{type(error).message}: {said}")
    if isinstance(error, JSONRPCError) and error.code == METHOD_NOT_FOUND_CODE:
        return JSONRPCError(
            code=METHOD_NOT_FOUND_CODE,
            message="There is no such method. This server has SendMessage, SendStreamingMessage, GetTask, ListTasks "
            "and SubscribeToTask, and v0.3's message/send, message/stream, tasks/get and tasks/resubscribe.",
        )
    if isinstance(error, JSONParseError):
        # Missing from the SDK's own table of errors.
        return JSONRPCError(code=PARSE_ERROR_CODE, message=str(error))
    if isinstance(error, A2AError | JSONRPCError):
        return error
    return JSONRPCError(code=INTERNAL_CODE, message=INTERNAL)
