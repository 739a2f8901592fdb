"""Conversion of a turn request to the RequestContext that the SDK's own server would pass to an executor."""

import asyncio
from collections.abc import Mapping
from typing import Any

from a2a.auth.user import UnauthenticatedUser, User
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext

from aion_core.auth.principal import ANONYMOUS
from aion_core.auth.tenants import owner_in
from aion_core.engine.agent import TurnRequest
from aion_core.engine.isolation import is_visible
from aion_core.engine.records import Log
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.task import projection
from aion_core.protocol.reserved_keys import (
    ACCEPTED_OUTPUT_MODES,
    NO_AION_EXTENSIONS,
    REQUESTED_EXTENSIONS,
    STREAMS,
    TENANT,
)
from aion_core.protocol.types import Message, SendMessageConfiguration, SendMessageRequest, Task
from aion_core.table.keys import TaskKey

CONFIGURATION = "aion.configuration"
"""Key in `call_context.state` for the agent's `configuration` of aion.yaml."""


class AuthenticatedUser(User):
    """SDK user object for an authenticated owner of tasks."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    @property
    def is_authenticated(self) -> bool:
        """Return True: a user object of this class stands for an authenticated caller. See `User.is_authenticated`."""
        return True

    @property
    def user_name(self) -> str:
        """Return the owner id of the caller's tasks. See `User.user_name`."""
        return self._owner


async def request_context(request: TurnRequest, tasks: StoredTasks, configuration: Mapping[str, Any]) -> RequestContext:
    """Return the SDK's RequestContext of a turn.

    `current_task` is None for a new task. For a follow-up message, it is the task before that message. The context
    includes the tasks that the message references, if the caller owns them. Raises StoreError.

    As under the SDK's server, the question of a task is in its status only: an executor that puts history and status
    message together reads it once.
    """
    before = request.before()
    message = Message()
    message.CopyFrom(request.message)
    send = SendMessageRequest(
        message=message,
        configuration=SendMessageConfiguration(accepted_output_modes=_strings(request, ACCEPTED_OUTPUT_MODES)),
    )
    reserved = (ACCEPTED_OUTPUT_MODES, NO_AION_EXTENSIONS, REQUESTED_EXTENSIONS, STREAMS, TENANT)
    send.metadata.update({key: value for key, value in request.request.items() if key not in reserved})
    return RequestContext(
        _call_context(request, configuration),
        request=send,
        task_id=request.task.id,
        context_id=request.context.context_id,
        task=projection.with_message_once(before) if before is not None else None,
        related_tasks=await _related_tasks(request, tasks),
    )


def cancel_context(log: Log, configuration: Mapping[str, Any]) -> RequestContext:
    """Return the RequestContext of a CancelTask request for the task of this log, whose last event cancels it."""
    head = log.head
    return RequestContext(
        _server_call_context(head.context.owner, "", configuration, "CancelTask", set()),
        task_id=head.key.task_id,
        context_id=head.context.context_id,
        task=task_before_cancellation(log),
    )


def task_before_cancellation(log: Log) -> Task:
    """Return the task without the last event of its log, which cancels it."""
    return projection.with_message_once(projection.fold(log.events[:-1] or log.events))


def _call_context(request: TurnRequest, configuration: Mapping[str, Any]) -> ServerCallContext:
    # Executors read the method to choose between chunks and one answer. As under JSON-RPC, it has its 1.0 name.
    method = "SendStreamingMessage" if request.request.get(STREAMS) else "SendMessage"
    extensions = {*request.message.extensions, *_strings(request, REQUESTED_EXTENSIONS)}
    tenant = str(request.request.get(TENANT, ""))
    return _server_call_context(request.context.owner, tenant, configuration, method, extensions)


def _server_call_context(
    owner: str, tenant: str, configuration: Mapping[str, Any], method: str, extensions: set[str]
) -> ServerCallContext:
    return ServerCallContext(
        user=UnauthenticatedUser() if owner == owner_in(ANONYMOUS, tenant) else AuthenticatedUser(owner),
        tenant=tenant,
        state={CONFIGURATION: dict(configuration), "method": method},
        requested_extensions=extensions,
    )


async def _related_tasks(request: TurnRequest, tasks: StoredTasks) -> list[Task]:
    """Return the tasks that the message references, except unknown ids and tasks of other callers or agents."""
    references, context = dict.fromkeys(request.message.reference_task_ids), request.context
    logs = await asyncio.gather(*(tasks.log(TaskKey(context.owner, task_id)) for task_id in references))
    return [
        projection.fold_once(log.events)
        for log in logs
        if log is not None and is_visible(log.head, context.owner, context.agent)
    ]


def _strings(request: TurnRequest, key: str) -> list[str]:
    value = request.request.get(key)
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
