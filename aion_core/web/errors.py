"""A refusal as the wire has it: JSON-RPC's, the REST binding's, and the REST binding's of v0.3."""

import logging
from typing import Any

from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from starlette.responses import JSONResponse

from aion_core.errors import StoreError
from aion_core.protocol.errors import (
    RETRY_AFTER,
    OnTheWire,
    ServiceUnavailableError,
    TooManyRequestsError,
    wire_form,
)

logger = logging.getLogger(__name__)

A2A_JSON = "application/a2a+json"
"""The media type of the REST binding (spec 11.1)."""

RETRY_AFTER_SECONDS = 2


def error_body(request_id: str | int | None, error: Exception) -> dict[str, Any]:
    """Return the JSON-RPC error response; what nobody expected says nothing but that it happened."""
    form, sentence, details = _logged(error)
    described = {"code": form.code, "message": sentence, "data": details}
    return {"error": described, "id": request_id, "jsonrpc": "2.0"}


def rest_error_body(error: Exception, http: int | None = None) -> dict[str, Any]:
    """Return the error as the REST binding of v1.0 has it (spec 11.6); `http` where the status is the transport's."""
    form, sentence, details = _logged(error)
    return {
        "error": {"code": http or form.http, "status": form.status, "message": sentence, "details": details},
    }


def v03_rest_error_body(error: Exception) -> dict[str, Any]:
    """Return the error as v0.3's clients read it: the specification's object, with the SDK's name for its type."""
    form, sentence, details = _logged(error)
    name = next((kind.__name__ for kind in type(error).__mro__ if kind in JSON_RPC_ERROR_CODE_MAP), "InternalError")
    return {"type": name, "code": form.code, "message": sentence, "data": details}


def rpc_error(request_id: str | int | None, error: Exception) -> JSONResponse:
    """Return the response that refuses a JSON-RPC request: HTTP has no part in it, but for who has asked too much."""
    too_much = isinstance(error, TooManyRequestsError)
    return JSONResponse(error_body(request_id, error), 429 if too_much else 200, _headers(error) if too_much else None)


def rest_error(error: Exception, http: int | None = None) -> JSONResponse:
    """Return the response that refuses a request of v1.0's REST binding."""
    return _response(rest_error_body(error, http), error, http, A2A_JSON)


def v03_rest_error(error: Exception, http: int | None = None) -> JSONResponse:
    """Return the response that refuses a request of v0.3's REST binding."""
    return _response(v03_rest_error_body(error), error, http, "application/json")


def _response(body: dict[str, Any], error: Exception, http: int | None, media_type: str) -> JSONResponse:
    return JSONResponse(body, http or wire_form(error)[0].http, _headers(error), media_type)


def _headers(error: Exception) -> dict[str, str] | None:
    match error:
        case TooManyRequestsError():
            return {"Retry-After": (error.data or {})[RETRY_AFTER]}
        case ServiceUnavailableError():
            return {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return None


def _logged(error: Exception) -> tuple[OnTheWire, str, list[dict[str, Any]]]:
    """Return the error's form on the wire, and log it: the one place that does, once for each answer."""
    form, sentence, details = wire_form(error)
    if form.http >= 500:
        cause = error.__cause__ if isinstance(error, A2AError) and error.__cause__ else error
        # A store's text names the operation and AWS's code; any other may quote what was sent (R13).
        what = f": {cause}" if isinstance(cause, StoreError) else ""
        level = logging.WARNING if isinstance(error, ServiceUnavailableError) else logging.ERROR
        logger.log(level, "A request failed with %s (%s)%s", form.code, form.reason, what, exc_info=cause)
    else:
        # Not the sentence, which may quote what was sent (R13); it is the client's to read.
        logger.info("Refused with %s (%s).", form.code, form.reason)
    return form, sentence, details
