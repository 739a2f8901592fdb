"""Operation of A2A: its use case, its form in each binding and version, and its description in OpenAPI."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from a2a.server.context import ServerCallContext
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as ProtoMessage
from pydantic import BaseModel

from aion_core.errors import InvalidMessage, NotSupported, PushNotSupported, TaskNotFound
from aion_core.ports import PushVersion
from aion_core.protocol.message_rules import Modes, is_id, modes_of
from aion_core.protocol.types import AgentCard
from aion_core.push.configs import PushRegistry
from aion_core.tasks.broadcast import StreamItem
from aion_core.tasks.call import CallContext
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.service import TaskService
from aion_core.web.cards import ExtendedCardPublisher
from aion_core.web.errors import wire_errors
from aion_core.web.limits import StreamLimits
from aion_core.web.request_body import StrictRequest
from aion_core.web.request_context import CALL, REQUEST_VERSION


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

    @cached_property
    def modes(self) -> Modes:
        """Media types of the card."""
        return modes_of(self.card)

    @property
    def push(self) -> PushRegistry:
        """Registry of push configs; raises PushNotSupported if the agent sends no push notifications."""
        if self.registry is None or not self.card.capabilities.push_notifications:
            raise PushNotSupported("This agent sends no push notifications; see its card.")
        return self.registry

    def require_streaming(self, instead: str) -> None:
        """Raise NotSupported with an alternative, unless the card offers streams."""
        if not self.card.capabilities.streaming:
            raise NotSupported(f"This agent does not stream; see its card. {instead}.")


Json = Any
Run = Callable[[AgentServices, Any, ServerCallContext], Awaitable[Any]]
"""Executes a unary operation; raises AionError or the SDK's A2AError."""


@dataclass(frozen=True, slots=True)
class TaskStream:
    """Open stream of a task's events."""

    call: CallContext
    task_id: str
    """Empty for a message without a task."""
    batches: AsyncGenerator[list[StreamItem], None]


StreamOpener = Callable[[AgentServices, Any, ServerCallContext], Awaitable[TaskStream]]
"""Opens the stream of a streaming operation."""


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
    stream: StreamOpener | None = None
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

    async def answer(self, services: AgentServices, request: Any, context: ServerCallContext) -> Any:
        """Return the result of a unary operation; raises the SDK's A2AErrors."""
        assert self.run is not None  # noqa: S101
        with wire_errors():
            return await self.run(services, request, context)

    async def open(
        self, services: AgentServices, request: Any, context: ServerCallContext
    ) -> tuple[list[StreamItem], AsyncGenerator[list[StreamItem], None]]:
        """Return the first batch of the stream and the other batches; raises A2AError if the operation is refused."""
        batches = self._batches(services, request, context)
        return await anext(batches, []), batches

    async def _batches(
        self, services: AgentServices, request: Any, context: ServerCallContext
    ) -> AsyncGenerator[list[StreamItem], None]:
        assert self.stream is not None  # noqa: S101
        with wire_errors():
            opened = await self.stream(services, request, context)
            limits = services.stream_limits
            limited = limits.limited(opened.call, opened.task_id) if limits else nullcontext()
            async with limited, aclosing(opened.batches) as batches:
                async for batch in batches:
                    yield batch


# ── Request context ───────────────────────────────────────────────────────────────────────────────────────────────────


def call_of(context: ServerCallContext) -> CallContext:
    """Return the call of the request."""
    call: CallContext = context.state[CALL]
    return call


def push_version_of(context: ServerCallContext) -> PushVersion:
    """Return the version of push notifications for the client: its protocol version."""
    return PushVersion(context.state[REQUEST_VERSION])


def require_task_id(task_id: str) -> None:
    """Raise InvalidMessage for a missing id, and TaskNotFound for an invalid one."""
    if not task_id:
        raise InvalidMessage("id is missing: it is the task's id, from the answer to the message.", field="id")
    if not is_id(task_id):
        raise TaskNotFound(task_id)
