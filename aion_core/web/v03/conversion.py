"""Conversions of an operation between v0.3 and v1.0."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from aion_core.web.operations.operation import Json, write_json
from aion_core.web.request.body import StrictRequest
from aion_core.web.v03.http_forms import prefers_kinds


class V03Conversion(Struct, frozen=True):
    """Conversions of an operation between v0.3 and v1.0.

    `read` and `read_http` convert a v0.3 request to v1.0. `write` converts a v1.0 result to v0.3's JSON-RPC types, with
    their `kind`; `write_http` converts it to the JSON of v0.3's proto file.
    """

    model: type[BaseModel] | None = None
    """The SDK's type of the whole JSON-RPC request. Without a model, `read` receives the params as JSON."""
    read: Callable[[Any], Any] = lambda params: params
    write: Callable[[Any], Any] = lambda result: result
    """Conversion of a v1.0 result to v0.3's types, as JSON or as models of the SDK."""
    read_http: Callable[[StrictRequest], Awaitable[Any]] | None = None
    write_http: Callable[[Any], Json] = write_json
    prefers_kinds: Callable[[StrictRequest], bool] = prefers_kinds
    """Function from an HTTP+JSON request to True if `write` writes its response, or False for `write_http`."""
