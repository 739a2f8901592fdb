"""Error responses of JSON-RPC, of v1.0's HTTP+JSON, and of v0.3's HTTP+JSON."""

import logging
from typing import Any

from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from starlette.requests import Request
from starlette.responses import JSONResponse

from aion_core.errors import AionError, StoreError
from aion_core.log import count_internal_error
from aion_core.protocol.errors import (
    RETRY_AFTER,
    ServiceUnavailableError,
    TooManyRequestsError,
    WireError,
    to_wire,
    wire_form,
)

logger = logging.getLogger(__name__)

A2A_JSON = "application/a2a+json"
"""Media type of the HTTP+JSON binding (A2A 11.1)."""

JSON = "application/json"

RETRY_AFTER_SECONDS = 2


def protocol_error(error: Exception) -> Exception:
    """Convert an AionError to an A2A protocol error. Return other errors unchanged."""
    return to_wire(error) if isinstance(error, AionError) else error


def error_body(request_id: str | int | None, error: Exception) -> dict[str, Any]:
    """Log the error and return its JSON-RPC error response. The message of an unexpected error is fixed."""
    form, message, details = _logged(error)
    return {"error": {"code": form.code, "message": message, "data": details}, "id": request_id, "jsonrpc": "2.0"}


def rest_error_body(error: Exception, http: int | None = None) -> dict[str, Any]:
    """Log the error and return the body of its v1.0 HTTP+JSON response (A2A 11.6). `http` overrides the status."""
    form, message, details = _logged(error)
    return {"error": {"code": http or form.http, "status": form.status, "message": message, "details": details}}


def v03_rest_error_body(error: Exception) -> dict[str, Any]:
    """Log the error and return its v0.3 HTTP+JSON body: JSON-RPC's error object with the SDK's name for its type."""
    error = protocol_error(error)
    form, message, details = _logged(error)
    name = next((kind.__name__ for kind in type(error).__mro__ if kind in JSON_RPC_ERROR_CODE_MAP), "InternalError")
    return {"type": name, "code": form.code, "message": message, "data": details}


def rpc_error(request_id: str | int | None, error: Exception) -> JSONResponse:
    """Return the JSON-RPC error response. Its HTTP status is 429 above the caller's limit, otherwise 200."""
    error = protocol_error(error)
    return JSONResponse(error_body(request_id, error), rpc_status(error), retry_headers(error))


def rpc_status(error: Exception) -> int:
    """Return the HTTP status for a protocol error in JSON-RPC."""
    return 429 if isinstance(error, TooManyRequestsError) else 200


def rest_media_type(request: Request) -> str:
    """Return the media type of v1.0's HTTP+JSON responses to this client.

    It is A2A_JSON if the request names it, as the type that it accepts or sends. Go's client reads an error only from
    `application/json`, which is what most clients accept.
    """
    named = (*request.headers.getlist("accept"), request.headers.get("content-type", ""))
    return A2A_JSON if any(A2A_JSON in each.lower() for each in named) else JSON


def rest_error(request: Request, error: Exception, http: int | None = None) -> JSONResponse:
    """Return the HTTP+JSON error response of v1.0."""
    error = protocol_error(error)
    return _response(rest_error_body(error, http), error, http, rest_media_type(request))


def v03_rest_error(error: Exception, http: int | None = None) -> JSONResponse:
    """Return the HTTP+JSON error response of v0.3."""
    error = protocol_error(error)
    return _response(v03_rest_error_body(error), error, http, JSON)


def _response(body: dict[str, Any], error: Exception, http: int | None, media_type: str) -> JSONResponse:
    return JSONResponse(body, http or wire_form(error)[0].http, retry_headers(error), media_type)


def retry_headers(error: Exception) -> dict[str, str] | None:
    """Return the Retry-After header if the protocol error may be temporary, otherwise None."""
    match error:
        case TooManyRequestsError():
            return {"Retry-After": (error.data or {})[RETRY_AFTER]}
        case ServiceUnavailableError():
            return {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return None


def _logged(error: Exception) -> tuple[WireError, str, list[dict[str, Any]]]:
    """Log the error of a response. Return its protocol codes, its message for the client, and its details."""
    error = protocol_error(error)
    form, message, details = wire_form(error)
    if form.http >= 500:
        count_internal_error()
        cause = error.__cause__ if isinstance(error, A2AError) and error.__cause__ else error
        # Log only a StoreError's text (operation and AWS error code), because other texts may quote the request.
        text = f": {cause}" if isinstance(cause, StoreError) else ""
        level = logging.WARNING if isinstance(error, ServiceUnavailableError) else logging.ERROR
        logger.log(level, "A request failed with %s (%s)%s", form.code, form.reason, text, exc_info=cause)
    else:
        # Do not log the message, because it may quote the request.
        logger.info("Refused with %s (%s).", form.code, form.reason)
    return form, message, details
