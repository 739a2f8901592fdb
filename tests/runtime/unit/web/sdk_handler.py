"""SDK request handler over the operations table, to compare our bindings with the SDK's dispatchers."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes.common import ServerCallContextBuilder

from aion_core.engine.records import Delta
from aion_core.engine.stream.broadcast import Resumed, ResumedText
from aion_core.errors import AionError
from aion_core.protocol.errors import to_wire
from aion_core.protocol.types import Event, Task
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.operations import OPERATIONS
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.call_context import CallContextBuilder
from aion_core.web.sse import as_event
from tests.support.service import ServiceParts

BY_NAME = {operation.name: operation for operation in OPERATIONS}


def services_of(made: ServiceParts) -> AgentServices:
    """Return the operations' services for this agent."""
    return AgentServices(made.service, made.lister, made.conversations, AgentCards.of(made.card))


class SdkContextBuilder(CallContextBuilder, ServerCallContextBuilder):
    """Our builder of a request's context, with the interface of the SDK's builder."""


class SdkHandler(RequestHandler):
    """SDK request handler that runs our operation for each method."""

    def __init__(self, made: ServiceParts) -> None:
        self._services = services_of(made)

    async def _run(self, name: str, params: Any, context: ServerCallContext) -> Any:
        run = BY_NAME[name].run
        assert run is not None
        try:
            return await run(self._services, params, context)
        except AionError as error:
            raise to_wire(error) from error

    async def _events(self, name: str, params: Any, context: ServerCallContext) -> AsyncGenerator[Event, None]:
        stream = BY_NAME[name].stream
        assert stream is not None
        task: Task | Resumed | None = None
        try:
            async with aclosing(stream(self._services, params, context)) as batches:
                async for batch in batches:
                    for item in batch:
                        if isinstance(item.payload, Task | Resumed):
                            task = item.payload
                        if isinstance(item.payload, Delta):
                            assert task is not None
                            yield as_event(item.payload, task)
                        elif not isinstance(item.payload, Resumed | ResumedText):
                            yield item.payload
        except AionError as error:
            raise to_wire(error) from error

    async def on_message_send(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("SendMessage", params, context)

    async def on_message_send_stream(self, params: Any, context: ServerCallContext) -> Any:
        async for event in self._events("SendStreamingMessage", params, context):
            yield event

    async def on_subscribe_to_task(self, params: Any, context: ServerCallContext) -> Any:
        async for event in self._events("SubscribeToTask", params, context):
            yield event

    async def on_get_task(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("GetTask", params, context)

    async def on_list_tasks(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("ListTasks", params, context)

    async def on_cancel_task(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("CancelTask", params, context)

    async def on_create_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("CreateTaskPushNotificationConfig", params, context)

    async def on_get_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("GetTaskPushNotificationConfig", params, context)

    async def on_list_task_push_notification_configs(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("ListTaskPushNotificationConfigs", params, context)

    async def on_delete_task_push_notification_config(self, params: Any, context: ServerCallContext) -> None:
        await self._run("DeleteTaskPushNotificationConfig", params, context)

    async def on_get_extended_agent_card(self, params: Any, context: ServerCallContext) -> Any:
        return await self._run("GetExtendedAgentCard", params, context)
