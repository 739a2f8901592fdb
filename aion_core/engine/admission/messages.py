"""Messages to store: a new task with its first turn, or a further message to a task. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from aion_core.engine.admission.repeats import content_hash
from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Head, Turn
from aion_core.engine.task import timestamps
from aion_core.engine.task.updates import working_event
from aion_core.errors import ClientError
from aion_core.protocol.types import Event, Message, Task, TaskState, TaskStatusUpdateEvent
from aion_core.table.keys import ContextKey, TaskKey


class NewTask(Struct, frozen=True):
    """Input of `MessageStore.create`: a task with its message, first events and turn."""

    key: TaskKey
    context: ContextKey
    context_is_new: bool
    """True if the server has just generated the contextId: the store then need not read the context's record."""
    message_id: str
    content_hash: bytes
    """Hash of the message's content, to distinguish a repeat from a reused messageId."""
    events: tuple[Task | TaskStatusUpdateEvent, ...]
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request's metadata, stored with the first event."""
    idempotency_key: str = ""
    """The client's Idempotency-Key, to recognise a repeat of a message without contextId."""
    push: PushConfig | None = None
    """The client's push config, stored in the task's transaction. Its webhook receives all events."""
    start_refusal: ClientError | None = None
    """Why the message cannot start a turn, although it may answer a question; None if it can start one."""
    first_refusal: ClientError | None = None
    """Why the message cannot start the first turn of a context, whose state cannot supply what the message lacks."""


class FollowUp(Struct, frozen=True):
    """Input of `MessageStore.follow_up`: a message to an existing task, and its turn."""

    head: Head
    """The task's head as read by the caller."""
    task: Task
    """The task as read by the caller. It is stored as a snapshot if older events would expire before the task."""
    message_id: str
    content_hash: bytes
    event: Event
    """The status update that sets an interrupted task to TASK_STATE_WORKING."""
    message: Message
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    push: PushConfig | None = None
    """The client's push config, stored in the message's transaction. Its webhook receives later events."""


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
    start_refusal: ClientError | None = None,
    first_refusal: ClientError | None = None,
) -> NewTask:
    """Return a new task for a message. Its first two events set the task to submitted and to working.

    The task is working even while its turn waits in the queue: in the seed documents, the answer to a non-blocking send
    says `working`.
    """
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
        start_refusal=start_refusal,
        first_refusal=first_refusal,
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
    """Return the input of `MessageStore.follow_up` for a message to an existing task."""
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
