"""What a client's message asks to store: a new task, or a further message to a task. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from aion_core.engine.admission.repeats import content_hash
from aion_core.engine.new_messages import FollowUp, NewTask
from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Head, Turn
from aion_core.engine.task import timestamps
from aion_core.engine.task.updates import working_event
from aion_core.protocol.types import Message, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table.keys import ContextKey, TaskKey


def new_task(
    message: Message,
    context: ContextKey,
    *,
    task_id: str,
    turn_id: str,
    at: datetime,
    context_is_new: bool,
    request: Mapping[str, Any] | None = None,
    idempotency_key: str = "",
    push: PushConfig | None = None,
) -> NewTask:
    """Return a new task for a message. Its first two events set the task to submitted and to working."""
    stored = _with_ids(message, task_id, context)
    submitted = Task(
        id=task_id,
        context_id=context.context_id,
        status=timestamps.status_at(TaskState.TASK_STATE_SUBMITTED, at),
        history=[stored],
    )
    working = TaskStatusUpdateEvent(
        task_id=task_id,
        context_id=context.context_id,
        status=timestamps.status_at(TaskState.TASK_STATE_WORKING, at),
    )
    return NewTask(
        key=TaskKey(context.owner, task_id),
        context=context,
        context_is_new=context_is_new,
        message_id=message.message_id,
        content_hash=content_hash(message),
        events=(submitted, working),
        turn=Turn(id=turn_id, task_id=task_id, message_generation=1),
        request=request or {},
        idempotency_key=idempotency_key,
        push=_with_config_id(push, task_id),
    )


def follow_up(
    message: Message,
    head: Head,
    task: Task,
    *,
    turn_id: str,
    at: datetime,
    request: Mapping[str, Any] | None = None,
    push: PushConfig | None = None,
) -> FollowUp:
    """Return the input of `TaskStore.follow_up` for a message to an existing task."""
    return FollowUp(
        head=head,
        task=task,
        message_id=message.message_id,
        content_hash=content_hash(message),
        event=working_event(head, at),
        message=_with_ids(message, head.key.task_id, head.context),
        turn=Turn(id=turn_id, task_id=head.key.task_id, message_generation=head.generation + 1),
        request=request or {},
        push=_with_config_id(push, head.key.task_id),
    )


def _with_ids(message: Message, task_id: str, context: ContextKey) -> Message:
    stored = Message()
    stored.CopyFrom(message)
    stored.task_id, stored.context_id = task_id, context.context_id
    return stored


def _with_config_id(push: PushConfig | None, task_id: str) -> PushConfig | None:
    """Return the push config with an id. A v0.3 config may have no id; it gets the id of its task."""
    return replace(push, id=push.id or task_id) if push else None
