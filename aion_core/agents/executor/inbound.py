"""What was asked, as the SDK's RequestContext: what an executor finds there under the SDK's own server, it finds here."""

import asyncio
from collections.abc import Mapping
from typing import Any

from a2a.auth.user import UnauthenticatedUser, User
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext

from aion_core.ports import ANONYMOUS, TaskKey, TaskStore, TurnRequest
from aion_core.protocol.message_rules import ACCEPTED_OUTPUT_MODES, REQUESTED_EXTENSIONS
from aion_core.protocol.types import Message, SendMessageConfiguration, SendMessageRequest, Task
from aion_core.tasks import projection

CONFIGURATION = "aion.configuration"
"""Where `call_context.state` holds the agent's `configuration` of aion.yaml."""


class Owner(User):
    """The authenticated caller."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    @property
    def is_authenticated(self) -> bool:
        """See `User.is_authenticated`."""
        return True

    @property
    def user_name(self) -> str:
        """See `User.user_name`."""
        return self._owner


async def request_of(asked: TurnRequest, tasks: TaskStore, configuration: Mapping[str, Any]) -> RequestContext:
    """Return the request's context, with the tasks that the message refers to, as far as they are the caller's.

    `current_task` is None for a message that has made its task, else the task as it stood before the message, with its
    question: an executor tells a follow-up by it. Raises StoreError.
    """
    message = Message()
    message.CopyFrom(asked.message)
    request = SendMessageRequest(
        message=message,
        configuration=SendMessageConfiguration(accepted_output_modes=_texts(asked, ACCEPTED_OUTPUT_MODES)),
    )
    request.metadata.update(
        {key: held for key, held in asked.request.items() if key not in (ACCEPTED_OUTPUT_MODES, REQUESTED_EXTENSIONS)}
    )
    return RequestContext(
        _call_context(asked, configuration),
        request=request,
        task_id=asked.task.id,
        context_id=asked.context.context_id,
        task=asked.before(),
        related_tasks=await _related(asked, tasks),
    )


def _call_context(asked: TurnRequest, configuration: Mapping[str, Any]) -> ServerCallContext:
    owner = asked.context.owner
    return ServerCallContext(
        user=UnauthenticatedUser() if owner == ANONYMOUS else Owner(owner),
        state={CONFIGURATION: dict(configuration)},
        requested_extensions={*asked.message.extensions, *_texts(asked, REQUESTED_EXTENSIONS)},
    )


async def _related(asked: TurnRequest, tasks: TaskStore) -> list[Task]:
    """Return the caller's tasks that the message refers to; those of another agent are as unknown as none."""
    references = dict.fromkeys(asked.message.reference_task_ids)
    logs = await asyncio.gather(*(tasks.log(TaskKey(asked.context.owner, task_id)) for task_id in references))
    return [
        projection.fold(log.events) for log in logs if log is not None and log.head.context.agent == asked.context.agent
    ]


def _texts(asked: TurnRequest, key: str) -> list[str]:
    held = asked.request.get(key)
    return [text for text in held if isinstance(text, str)] if isinstance(held, list) else []
