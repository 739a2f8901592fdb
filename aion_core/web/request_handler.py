"""A2A operations: the seam to the SDK, answered by `tasks.service` for one agent, and the table of all bindings."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotFoundError
from a2a.utils.task import apply_history_length
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as AnyMessage

from aion_core.errors import AionError, InvalidMessage, NoExtendedCard, NotSupported, PushNotSupported, TaskNotFound
from aion_core.ports import Delta, PushVersion
from aion_core.protocol.aion.extensions import TRACEABILITY, from_headers, older
from aion_core.protocol.aion.extensions import read as read_extensions
from aion_core.protocol.errors import to_wire
from aion_core.protocol.message_rules import (
    ALLOWED_SKILLS,
    check_history_length,
    check_request,
    is_id,
    modes_of,
    negotiate,
    without_reserved_metadata,
)
from aion_core.protocol.types import AgentCard, Event, ListTasksRequest, Message, SendMessageRequest, Task, delta_event
from aion_core.push.configs import PushRegistry
from aion_core.tasks.broadcast import Resumed, StreamItem
from aion_core.tasks.call import CallContext
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.service import TaskService
from aion_core.web.cards import ExtendedCard
from aion_core.web.limits import StreamLimits
from aion_core.web.request_context import CALL, SPOKEN


class AionRequestHandler(RequestHandler):
    """Answers A2A requests, of whichever version and binding, once they are parsed.

    Every method raises the SDK's `A2AError`s and nothing else on purpose.
    """

    def __init__(
        self,
        service: TaskService,
        lister: TaskLister,
        card: AgentCard,
        *,
        extended_card: ExtendedCard | None = None,
        registry: PushRegistry | None = None,
        streams: StreamLimits | None = None,
    ) -> None:
        """`card` is the agent's public one: what it does not offer is refused. `streams`: counts them, where needed."""
        self._streams = streams
        self._service, self._lister, self._extended_card = service, lister, extended_card
        self._offers, self._modes = card.capabilities, modes_of(card)
        self._registry = registry if card.capabilities.push_notifications else None

    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """See `TaskService.send`; a task's history is as long as the request says."""
        with wire_errors():
            taken = self._taken(params, context)
            call = await self._listening(taken, context)
            answer = await self._service.send(call, taken)
        return apply_history_length(answer, params.configuration) if isinstance(answer, Task) else answer

    async def batches(
        self, params: pb.SendMessageRequest | pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[list[StreamItem], None]:
        """Yield what is said, as often as something is ready; see `TaskService.stream` and `.subscribe`.

        The task that a message's stream begins with has as long a history as the message asks for.
        """
        with wire_errors():
            sends = isinstance(params, pb.SendMessageRequest)
            if not self._offers.streaming:
                instead = "Send the message without streaming" if sends else "Ask for the task until it has ended"
                raise NotSupported(f"This agent does not stream; its card says so. {instead}.")
            asked: pb.SendMessageConfiguration | None = None
            if isinstance(params, pb.SendMessageRequest):
                taken = self._taken(params, context)
                batches = self._service.stream(await self._listening(taken, context), taken)
                asked = params.configuration if params.configuration.HasField("history_length") else None
            else:
                _require_id(params.id)
                batches = self._service.subscribe(_call(context), params.id)
            task_id = params.message.task_id if isinstance(params, pb.SendMessageRequest) else params.id
            counted = self._streams.counted(_call(context), task_id) if self._streams else nullcontext()
            async with counted, aclosing(batches):
                async for batch in batches:
                    yield batch if asked is None else [_shortened(spoken, asked) for spoken in batch]

    async def opened(
        self, params: pb.SendMessageRequest | pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> tuple[list[StreamItem], AsyncGenerator[list[StreamItem], None]]:
        """Return the stream's first batch and the rest of `batches`; raises if the request is refused before it."""
        batches = self.batches(params, context)
        return await anext(batches, []), batches

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Yield the events one by one, without their ids: how the SDK's own dispatchers read a stream."""
        async for event in self._events(params, context):
            yield event

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Yield the task, then its events one by one, without their ids."""
        async for event in self._events(params, context):
            yield event

    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> Task:
        """See `TaskService.get`; the history is as long as the request says."""
        with wire_errors():
            _require_id(params.id)
            check_history_length(params.history_length, "historyLength")
            task = await self._service.get(_call(context), params.id)
        return apply_history_length(task, params)

    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        """See `TaskLister.list_tasks`."""
        with wire_errors():
            return await self._lister.list_tasks(_call(context), params)

    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> Task | None:
        """See `TaskService.cancel`."""
        with wire_errors():
            _require_id(params.id)
            return await self._service.cancel(_call(context), params.id)

    async def on_create_task_push_notification_config(
        self, params: pb.TaskPushNotificationConfig, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        """See `PushRegistry.create`; refused where the card does not offer push notifications (R95), as are the next."""
        with wire_errors():
            return await self._push.create(_call(context), params, _spoken(context))

    async def on_get_task_push_notification_config(
        self, params: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> pb.TaskPushNotificationConfig:
        """See `PushRegistry.get`."""
        with wire_errors():
            return await self._push.get(_call(context), params, _spoken(context))

    async def on_list_task_push_notification_configs(
        self, params: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        """See `PushRegistry.list_configs`."""
        with wire_errors():
            return await self._push.list_configs(_call(context), params)

    async def on_delete_task_push_notification_config(
        self, params: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """See `PushRegistry.delete`."""
        with wire_errors():
            await self._push.delete(_call(context), params)

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> pb.AgentCard:
        """Return the extended card, where the agent offers one and has one (R7, D4).

        It is for callers who have said who they are (spec 3.1.11): whoever builds the context refuses the others, on
        this operation as on each, once the server asks.
        """
        if not self._offers.extended_agent_card:
            raise _not_offered("an extended card")
        if self._extended_card is None:
            sentence = "This agent's extended card is not configured. Its public card says what it does."
            raise to_wire(NoExtendedCard(sentence))
        return self._extended_card.for_caller(context.state.get(ALLOWED_SKILLS), _call(context).entrypoint_url)

    @property
    def _push(self) -> PushRegistry:
        if self._registry is None:
            raise PushNotSupported("This agent sends no push notifications; its card says so.")
        return self._registry

    async def _listening(self, taken: pb.SendMessageRequest, context: ServerCallContext) -> CallContext:
        """Return the call, with where its client wants to hear of the task."""
        if not taken.configuration.HasField("task_push_notification_config"):
            return _call(context)
        return await self._push.with_message(_call(context), taken, _spoken(context))

    def _taken(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.SendMessageRequest:
        """Return the request as it is kept: without what only the server may say (R76), with the trace of its headers.

        Raises ClientError where it cannot be taken, such as for a payload of an Aion extension that is none.
        """
        check_request(params, _call(context).idempotency_key)
        taken = without_reserved_metadata(params)
        trace = from_headers(context.state.get("headers", {}))
        if trace and not {TRACEABILITY, older(TRACEABILITY)} & taken.metadata.fields.keys():
            taken.metadata.update({TRACEABILITY: trace})
        if (allowed := context.state.get(ALLOWED_SKILLS)) is not None:
            taken.metadata.update({ALLOWED_SKILLS: allowed})
        read_extensions(taken.message, MessageToDict(taken.metadata))
        negotiate(taken, self._modes, context.requested_extensions)
        return taken

    async def _events(
        self, params: pb.SendMessageRequest | pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        task: Task | Resumed | None = None
        async with aclosing(self.batches(params, context)) as batches:
            async for batch in batches:
                for spoken in batch:
                    if isinstance(spoken.payload, Task | Resumed):
                        task = spoken.payload
                    if isinstance(spoken.payload, Delta):
                        assert task is not None  # noqa: S101  # the first event is a task (R32)
                        yield as_event(spoken.payload, task)
                    elif not isinstance(spoken.payload, Resumed):
                        yield spoken.payload


def _shortened(spoken: StreamItem, asked: pb.SendMessageConfiguration) -> StreamItem:
    if not isinstance(spoken.payload, Task):
        return spoken
    return replace(spoken, payload=apply_history_length(spoken.payload, asked))


def as_event(delta: Delta, task: Task | Resumed) -> pb.TaskArtifactUpdateEvent:
    """Return the chunk as an event of the task."""
    return delta_event(
        task_id=task.id,
        context_id=task.context_id,
        text=delta.text,
        append=delta.append,
        last=delta.last,
        reason=delta.reason,
    )


@contextmanager
def wire_errors() -> Iterator[None]:
    """Let what aion raises on purpose leave as the protocol's error."""
    try:
        yield
    except AionError as error:
        raise to_wire(error) from error


def _call(context: ServerCallContext) -> CallContext:
    call: CallContext = context.state[CALL]
    return call


def _spoken(context: ServerCallContext) -> PushVersion:
    return PushVersion(context.state[SPOKEN])


def _require_id(task_id: str) -> None:
    if not task_id:
        raise InvalidMessage("id is missing: it is the task's id, from the answer to the message.", field="id")
    if not is_id(task_id):
        raise TaskNotFound(task_id)


def _not_offered(operation: str) -> Exception:
    return to_wire(NotSupported(f"This agent does not offer {operation}; its card says what it offers."))


# ── Operations by name ────────────────────────────────────────────────────────────────────────────────────────────────

Answer = Callable[[AionRequestHandler, Any, ServerCallContext], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One of them."""

    request: type[AnyMessage]
    answer: Answer | None = None
    """None where it streams."""
    reads_card: bool = False
    """Whether it is how a client learns what the agent requires, so that nothing is required of it."""


async def _send(handler: AionRequestHandler, params: pb.SendMessageRequest, context: ServerCallContext) -> Any:
    said = await handler.on_message_send(params, context)
    return MessageToDict(
        pb.SendMessageResponse(task=said) if isinstance(said, Task) else pb.SendMessageResponse(message=said)
    )


async def _get_task(handler: AionRequestHandler, params: pb.GetTaskRequest, context: ServerCallContext) -> Any:
    return MessageToDict(await handler.on_get_task(params, context))


async def _list_tasks(handler: AionRequestHandler, params: ListTasksRequest, context: ServerCallContext) -> Any:
    page = await handler.on_list_tasks(params, context)
    listed: dict[str, Any] = {"nextPageToken": "", "pageSize": 0, "totalSize": 0, **MessageToDict(page)}
    listed["tasks"] = listed.get("tasks", [])
    if params.include_artifacts:
        # There with its content, which may be empty, where it is asked for; absent where it is not (spec 3.1.4).
        for task in listed["tasks"]:
            task.setdefault("artifacts", [])
    return listed


async def _cancel_task(handler: AionRequestHandler, params: pb.CancelTaskRequest, context: ServerCallContext) -> Any:
    task = await handler.on_cancel_task(params, context)
    if task is None:
        raise TaskNotFoundError
    return MessageToDict(task)


async def _create_config(
    handler: AionRequestHandler, params: pb.TaskPushNotificationConfig, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_create_task_push_notification_config(params, context))


async def _get_config(
    handler: AionRequestHandler, params: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_get_task_push_notification_config(params, context))


async def _list_configs(
    handler: AionRequestHandler, params: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_list_task_push_notification_configs(params, context))


async def _delete_config(
    handler: AionRequestHandler, params: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
) -> Any:
    await handler.on_delete_task_push_notification_config(params, context)


async def _extended_card(
    handler: AionRequestHandler, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
) -> Any:
    return MessageToDict(await handler.on_get_extended_agent_card(params, context))


OPERATIONS: dict[str, Operation] = {
    "SendMessage": Operation(SendMessageRequest, _send),
    "SendStreamingMessage": Operation(SendMessageRequest),
    "GetTask": Operation(pb.GetTaskRequest, _get_task),
    "ListTasks": Operation(ListTasksRequest, _list_tasks),
    "CancelTask": Operation(pb.CancelTaskRequest, _cancel_task),
    "SubscribeToTask": Operation(pb.SubscribeToTaskRequest),
    "CreateTaskPushNotificationConfig": Operation(pb.TaskPushNotificationConfig, _create_config),
    "GetTaskPushNotificationConfig": Operation(pb.GetTaskPushNotificationConfigRequest, _get_config),
    "ListTaskPushNotificationConfigs": Operation(pb.ListTaskPushNotificationConfigsRequest, _list_configs),
    "DeleteTaskPushNotificationConfig": Operation(pb.DeleteTaskPushNotificationConfigRequest, _delete_config),
    "GetExtendedAgentCard": Operation(pb.GetExtendedAgentCardRequest, _extended_card, reads_card=True),
}
"""By their names in the specification, which are JSON-RPC's methods."""
