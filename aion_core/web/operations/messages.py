"""SendMessage, SendStreamingMessage and SubscribeToTask (A2A 3.1.1, 3.1.2, 3.1.6)."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.task import apply_history_length
from msgspec.structs import replace

from aion_core.engine.call import CallContext
from aion_core.engine.stream.broadcast import StreamItem
from aion_core.engine.task import states
from aion_core.errors import NotSupported
from aion_core.protocol.aion.extensions import TRACEABILITY, older
from aion_core.protocol.aion.inbound import read as read_extensions
from aion_core.protocol.aion.trace_context import from_headers
from aion_core.protocol.media_types import negotiate
from aion_core.protocol.message_json import to_json
from aion_core.protocol.message_rules import check_request
from aion_core.protocol.reserved_keys import (
    ALLOWED_SKILLS,
    NO_AION_EXTENSIONS,
    STREAMS,
    TENANT,
    without_reserved_metadata,
)
from aion_core.protocol.types import Message, SendMessageRequest, StreamResponse, Task
from aion_core.web.operations.operation import Body, Doc, HttpRoute, Operation, V03Form
from aion_core.web.operations.services import AgentServices
from aion_core.web.operations.tasks import require_task_id
from aion_core.web.request.call_context import REQUEST_VERSION, call_of, push_version_of
from aion_core.web.request.versions import V03


async def _send(services: AgentServices, request: SendMessageRequest, context: ServerCallContext) -> Task | Message:
    prepared = _prepared(services, request, context)
    call = await _call(services, prepared, context)
    waits = services.tasks.waits(call, prepared)
    async with _limited(services, call, request.message.task_id) if waits else nullcontext():
        answer = await services.tasks.send(call, prepared)
    return apply_history_length(answer, request.configuration) if isinstance(answer, Task) else answer


async def _stream(
    services: AgentServices, request: SendMessageRequest, context: ServerCallContext
) -> AsyncGenerator[list[StreamItem], None]:
    _require_streaming(services, "Send the message without streaming")
    prepared = _prepared(services, request, context)
    prepared.metadata.update({STREAMS: True})
    call = await _call(services, prepared, context)
    limit = request.configuration if request.configuration.HasField("history_length") else None
    async with (
        _limited(services, call, request.message.task_id),
        aclosing(services.tasks.stream(call, prepared)) as batches,
    ):
        async for batch in batches:
            yield batch if limit is None else [_with_history(item, limit) for item in batch]


async def _subscribe(
    services: AgentServices, request: pb.SubscribeToTaskRequest, context: ServerCallContext
) -> AsyncGenerator[list[StreamItem], None]:
    _require_streaming(services, "Ask for the task until it has ended")
    require_task_id(request.id)
    call = call_of(context)
    # End a v0.3 stream at an interrupted state: it has `final: true`, so no event may follow (A2A v0.3 7.2.2). End a
    # buffered stream there too, because the message that continues the task would have to wait for its end.
    ends_early = context.state[REQUEST_VERSION] == V03 or call.is_buffered
    ends = states.TERMINAL_OR_INTERRUPTED if ends_early else states.TERMINAL
    subscribed = services.tasks.subscribe(call, request.id, ends=ends)
    async with _limited(services, call, request.id), aclosing(subscribed) as batches:
        async for batch in batches:
            yield batch


def _require_streaming(services: AgentServices, instead: str) -> None:
    """Raise NotSupported unless the agent's card declares streaming. `instead` names the client's alternative."""
    if not services.card.capabilities.streaming:
        raise NotSupported(f"This agent does not stream; see its card. {instead}.")


def _limited(services: AgentServices, call: CallContext, task_id: str) -> AbstractAsyncContextManager[None]:
    """Return a context manager that counts a stream or blocking send of the caller. `task_id` is "" for a new task."""
    return services.stream_limits.limited(call, task_id) if services.stream_limits else nullcontext()


def _with_history(item: StreamItem, limit: pb.SendMessageConfiguration) -> StreamItem:
    """Return the stream item. If it is a task, limit its history to the requested number of messages (A2A 3.2.4)."""
    if not isinstance(item.payload, Task):
        return item
    return replace(item, payload=apply_history_length(item.payload, limit))


def _prepared(services: AgentServices, request: SendMessageRequest, context: ServerCallContext) -> SendMessageRequest:
    """Check the client's message. Return the request as the store and the agent's turn receive it.

    The client's reserved metadata is removed. The trace context from the headers, the caller's allowed skills and the
    tenant are added. Raises ClientError for an invalid message or extension payload.
    """
    check_request(request, call_of(context).idempotency_key)
    prepared = without_reserved_metadata(request)
    if services.reads_aion_extensions:
        trace = from_headers(context.state.get("headers", {}))
        if trace and not {TRACEABILITY, older(TRACEABILITY)} & prepared.metadata.fields.keys():
            prepared.metadata.update({TRACEABILITY: trace})
        read_extensions(prepared.message, to_json(prepared.metadata))
    else:
        prepared.metadata.update({NO_AION_EXTENSIONS: True})
    if (allowed := context.state.get(ALLOWED_SKILLS)) is not None:
        prepared.metadata.update({ALLOWED_SKILLS: allowed})
    if context.tenant:
        prepared.metadata.update({TENANT: context.tenant})
    negotiate(prepared, services.cards.modes, context.requested_extensions)
    return prepared


async def _call(services: AgentServices, request: SendMessageRequest, context: ServerCallContext) -> CallContext:
    """Return the context of the call, with the message's push config, and why the message cannot start a turn."""
    start, first = services.cards.start_refusals(request.message)
    call = replace(call_of(context), start_refusal=start, first_refusal=first)
    if not request.configuration.HasField("task_push_notification_config"):
        return call
    return await services.push.with_message(call, request, push_version_of(context))


def _write(answer: Task | Message, request: SendMessageRequest) -> Any:
    # Without a copy of the answer in a SendMessageResponse.
    return {"task" if isinstance(answer, Task) else "message": to_json(answer)}


_PARAMETERS = ("IdempotencyKey",)
_EXAMPLE = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello, who are you?"}]}}

SEND_MESSAGE = Operation(
    "SendMessage",
    SendMessageRequest,
    _send,
    response=pb.SendMessageResponse,
    write=_write,
    routes=(HttpRoute("POST", "/message:send", Body.REQUIRED),),
    v03=V03Form("message/send", routes=(HttpRoute("POST", "/v1/message:send"),)),
    doc=Doc(
        "Send a message and return its task or the agent's answer.",
        "messages",
        "The response follows when the task ends or requires input; with `configuration.returnImmediately` it follows at "
        "once. A repeated message, with the same messageId in the same context, returns the same task; the agent runs once.",
        "The task, or a message from an agent without tasks.",
        _PARAMETERS,
        _EXAMPLE,
    ),
)

SEND_STREAMING_MESSAGE = Operation(
    "SendStreamingMessage",
    SendMessageRequest,
    stream=_stream,
    response=StreamResponse,
    routes=(HttpRoute("POST", "/message:stream", Body.REQUIRED),),
    v03=V03Form("message/stream", routes=(HttpRoute("POST", "/v1/message:stream"),)),
    doc=Doc(
        "Send a message and stream the answer.",
        "messages",
        "A repeated message streams its task again, with the header Last-Event-ID only the events after this id.",
        parameters=(*_PARAMETERS, "LastEventId"),
        example=_EXAMPLE,
    ),
)

SUBSCRIBE_TO_TASK = Operation(
    "SubscribeToTask",
    pb.SubscribeToTaskRequest,
    stream=_subscribe,
    response=StreamResponse,
    # Accept both methods: section 11.3 of the A2A specification has POST, but its proto file has GET.
    routes=tuple(HttpRoute(method, "/tasks/{id}:subscribe") for method in ("POST", "GET")),
    v03=V03Form(
        "tasks/resubscribe",
        routes=tuple(HttpRoute(method, "/v1/tasks/{id}:subscribe") for method in ("POST", "GET")),
    ),
    doc=Doc(
        "Stream a task: its current state, then its updates.",
        "tasks",
        "The stream ends when the task is terminal, and stays open while the task requires input or authentication. It also "
        "ends after five minutes without an event, and before the end of the server's process: subscribe again. The "
        "specification has this operation as a POST, its proto file as a GET.",
        parameters=("LastEventId",),
    ),
)
