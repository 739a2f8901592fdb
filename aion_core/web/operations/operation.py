"""Operation of A2A: its use case, its form in each binding and version, and its description in OpenAPI."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from a2a.server.context import ServerCallContext
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel

from aion_core.errors import InvalidMessage, PushNotSupported, TaskNotFound
from aion_core.protocol.message_rules import Modes, is_id, modes_of
from aion_core.protocol.types import AgentCard
from aion_core.push.configs import PushRegistry
from aion_core.tasks.broadcast import StreamItem
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.service import TaskService
from aion_core.web.cards import ExtendedCardPublisher
from aion_core.web.limits import StreamLimits
from aion_core.web.request_body import StrictRequest


@dataclass(frozen=True)
class AgentServices:
    """Use cases of one agent, within the capabilities of its public card."""

    tasks: TaskService
    lister: TaskLister
    conversations: Conversations
    card: AgentCard
    extended_card: ExtendedCardPublisher | None = None
    registry: PushRegistry | None = None
    stream_limits: StreamLimits | None = None
    modes: Modes = field(init=False)
    """Media types of the card."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "modes", modes_of(self.card))

    @property
    def push(self) -> PushRegistry:
        """Registry of push configs; raises PushNotSupported if the agent sends no push notifications."""
        if self.registry is None or not self.card.capabilities.push_notifications:
            raise PushNotSupported("This agent sends no push notifications; see its card.")
        return self.registry


Json = Any
Run = Callable[[AgentServices, Any, ServerCallContext], Awaitable[Any]]
"""Executes a unary operation; raises AionError or the SDK's A2AError."""


Stream = Callable[[AgentServices, Any, ServerCallContext], AsyncGenerator[list[StreamItem], None]]
"""Yields the batches of a streaming operation; raises like `Run`, before the first batch if the request is refused."""


# ── Forms ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Body(Enum):
    """Use of the body of an HTTP+JSON request."""

    IGNORED = "ignored"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """HTTP method and path of an operation. A path parameter has the name of its request field."""

    method: str
    path: str
    body: Body = Body.IGNORED
    """A request without a body has its parameters in the query."""

    @property
    def has_query(self) -> bool:
        """True if the query holds request fields."""
        return self.method != "POST"


def to_json(result: ProtoMessage | None, request: Any = None) -> Json:
    """Return the JSON of a v1.0 result."""
    return None if result is None else MessageToDict(result)


@dataclass(frozen=True, slots=True)
class V03Form:
    """Form of an operation in A2A v0.3: one JSON-RPC method, HTTP+JSON routes, and the conversions of both.

    The conversions map v0.3's types to the request and the result of v1.0.
    """

    method: str = ""
    """JSON-RPC method; empty for an operation of HTTP+JSON only."""
    model: type[BaseModel] | None = None
    """SDK's type of the whole JSON-RPC request. Without a model, `read` receives the params as JSON."""
    read: Callable[[Any], Any] = lambda params: params
    write: Callable[[Any], Any] = lambda result: result
    """Returns the JSON-RPC result as JSON or as models of the SDK."""
    aliases: tuple[str, ...] = ()
    """Older names of the method."""
    routes: tuple[HttpRoute, ...] = ()
    read_http: Callable[[StrictRequest], Awaitable[Any]] | None = None
    write_http: Callable[[Any], Json] = to_json


@dataclass(frozen=True, slots=True)
class Doc:
    """Description of an operation in the OpenAPI document."""

    summary: str
    tag: str
    description: str = ""
    result: str = ""
    """Description of the successful response."""
    parameters: tuple[str, ...] = ()
    """Names of additional header parameters: keys of `components.parameters`."""
    example: Mapping[str, Any] | None = None
    """Example of the request body."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Entry of the operations table. Each binding, each version and the OpenAPI document are built from it."""

    name: str
    """JSON-RPC method of v1.0: the name in the A2A specification."""
    request: type[ProtoMessage] | None = None
    """Type of the params; without a type, the operation receives them as JSON."""
    run: Run | None = None
    stream: Stream | None = None
    """An operation has either `run` or `stream`."""
    response: type[ProtoMessage] | None = None
    """Type of the result, or of each event of a stream, in v1.0; no type for an empty result."""
    write: Callable[[Any, Any], Json] = to_json
    """Returns the JSON of the result in v1.0; the second argument is the request."""
    routes: tuple[HttpRoute, ...] = ()
    """HTTP+JSON routes of v1.0, without tenant; empty for an operation of JSON-RPC only."""
    v03: V03Form | None = None
    before_extensions: bool = False
    """True for an operation without required extensions: clients learn the requirements from its result."""
    doc: Doc | None = None
    """Required for an operation with HTTP+JSON routes."""


# ── Task id ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def require_task_id(task_id: str) -> None:
    """Raise InvalidMessage for a missing id, and TaskNotFound for an invalid one."""
    if not task_id:
        raise InvalidMessage("id is missing: it is the task's id, from the answer to the message.", field="id")
    if not is_id(task_id):
        raise TaskNotFound(task_id)
