"""Entry of the operations table."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from enum import Enum
from typing import Any

from a2a.server.context import ServerCallContext
from google.protobuf.message import Message as ProtoMessage
from msgspec import Struct

from aion_core.engine.stream.broadcast import StreamItem
from aion_core.protocol.message_json import to_json
from aion_core.web.operations.services import AgentServices

Json = Any

Run = Callable[[AgentServices, Any, ServerCallContext], Awaitable[Any]]
"""Function of an operation with a single response. It raises AionError or the SDK's A2AError."""

Stream = Callable[[AgentServices, Any, ServerCallContext], AsyncGenerator[list[StreamItem], None]]
"""Generator function of a streaming operation. It yields batches of events and raises the same errors as `Run`.

A refused request raises before the first batch.
"""


class Body(Enum):
    """Use of the body in an HTTP+JSON request."""

    IGNORED = "ignored"
    OPTIONAL = "optional"
    REQUIRED = "required"


class HttpRoute(Struct, frozen=True):
    """HTTP method and path of an operation. A path parameter has the same name as its request field."""

    method: str
    path: str
    body: Body = Body.IGNORED
    """Use of the request body. A GET or DELETE request has its parameters in the query."""

    @property
    def has_query(self) -> bool:
        """True if the query contains the request's fields, as for all methods except POST."""
        return self.method != "POST"


def write_json(result: ProtoMessage | None, request: Any = None) -> Json:
    """Return a protobuf result as JSON; None for no result. Operations of v1.0 use this writer by default."""
    return None if result is None else to_json(result)


class V03Form(Struct, frozen=True):
    """Names of an operation in A2A v0.3. Its conversions are in `aion_core.web.v03.operations`."""

    method: str = ""
    """Name of the JSON-RPC method. It is empty for an operation in HTTP+JSON only."""
    aliases: tuple[str, ...] = ()
    """Older names of the JSON-RPC method, also accepted."""
    routes: tuple[HttpRoute, ...] = ()


class Doc(Struct, frozen=True):
    """Description of an operation in the OpenAPI document."""

    summary: str
    tag: str
    description: str = ""
    result: str = ""
    """Description of the successful response."""
    parameters: tuple[str, ...] = ()
    """Names of additional header parameters, as keys of OpenAPI's `components.parameters`."""
    example: Mapping[str, Any] | None = None
    """Example of the request body."""


class Operation(Struct, frozen=True):
    """Entry of the operations table. The bindings of both versions and the OpenAPI document are built from it."""

    name: str
    """Name in the A2A specification, also the JSON-RPC method of v1.0."""
    request: type[ProtoMessage] | None = None
    """Protobuf type of the request. Without a type, the operation receives its params as JSON."""
    run: Run | None = None
    stream: Stream | None = None
    """An operation has either `run` or `stream`."""
    response: type[ProtoMessage] | None = None
    """Protobuf type of the v1.0 result or of each streamed event. An empty result has no type."""
    write: Callable[[Any, Any], Json] = write_json
    """Function from the result and the request to the JSON of the v1.0 result."""
    routes: tuple[HttpRoute, ...] = ()
    """HTTP+JSON routes of v1.0 without the tenant. An operation in JSON-RPC only has no routes."""
    v03: V03Form | None = None
    before_extensions: bool = False
    """True if the client may omit required extensions, since the result of the operation lists them."""
    doc: Doc | None = None
    """OpenAPI description, required for an operation with HTTP+JSON routes."""

    def method(self, version: str) -> str:
        """Return the operation's JSON-RPC method name in this version of A2A; "" if there is none."""
        return self.name if version == "1.0" else self.v03.method if self.v03 else ""

    def first_path(self, version: str) -> str:
        """Return the operation's first HTTP+JSON path in this version of A2A; "" if there is none."""
        routes = self.routes if version == "1.0" else self.v03.routes if self.v03 else ()
        return routes[0].path if routes else ""
