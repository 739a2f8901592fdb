"""What a message becomes: the new task, its first events, its turn, and what makes a repeat of it. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from uuid_utils.compat import uuid7

from aion_core.errors import ContextBusy, IllegalMove, LeaseLost, MessageIdReused
from aion_core.ports import (
    MAX_WAITING,
    ContextKey,
    FollowUp,
    Head,
    NewTask,
    Numbered,
    PushConfig,
    Repeated,
    TaskKey,
    Turn,
)
from aion_core.protocol.types import Message, Part, Role, Task, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import lifecycle


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
    """Return what is kept of a message that starts a task: submitted, then working (R32, R33, D12)."""
    asked = Message()
    asked.CopyFrom(message)
    asked.task_id, asked.context_id = task_id, context.context_id
    submitted = Task(
        id=task_id,
        context_id=context.context_id,
        status=lifecycle.status_at(TaskState.TASK_STATE_SUBMITTED, at),
        history=[asked],
    )
    working = TaskStatusUpdateEvent(
        task_id=task_id,
        context_id=context.context_id,
        status=lifecycle.status_at(TaskState.TASK_STATE_WORKING, at),
    )
    return NewTask(
        key=TaskKey(context.owner, task_id),
        context=context,
        context_is_new=context_is_new,
        message_id=message.message_id,
        content_hash=content_hash(message),
        events=(submitted, working),
        turn=Turn(id=turn_id, task_id=task_id, asked=1),
        request=request or {},
        idempotency_key=idempotency_key,
        push=_named(push, task_id),
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
    """Return what is kept of a message to a task that there is: by it, the task works again, or goes on working."""
    asked = Message()
    asked.CopyFrom(message)
    asked.task_id, asked.context_id = head.key.task_id, head.context.context_id
    return FollowUp(
        head=head,
        task=task,
        message_id=message.message_id,
        content_hash=content_hash(message),
        event=at_work(head, at),
        asked=asked,
        turn=Turn(id=turn_id, task_id=head.key.task_id, asked=head.generation + 1),
        request=request or {},
        push=_named(push, head.key.task_id),
    )


def _named(push: PushConfig | None, task_id: str) -> PushConfig | None:
    """Return the config with its id: one of v0.3 that names none is called as its task is."""
    return replace(push, id=push.id or task_id) if push else None


def at_work(head: Head, at: datetime) -> TaskStatusUpdateEvent:
    """Return the event by which a task takes a message in: it works."""
    return TaskStatusUpdateEvent(
        task_id=head.key.task_id,
        context_id=head.context.context_id,
        status=lifecycle.status_at(TaskState.TASK_STATE_WORKING, at),
    )


def canceled(head: Head, at: datetime, reason: str) -> TaskStatusUpdateEvent:
    """Return the event by which a task is canceled, and why."""
    said = Message(
        message_id=str(uuid7()),
        role=Role.ROLE_AGENT,
        task_id=head.key.task_id,
        context_id=head.context.context_id,
        parts=[Part(text=reason)],
    )
    status = lifecycle.status_at(TaskState.TASK_STATE_CANCELED, at)
    status.message.CopyFrom(said)
    return TaskStatusUpdateEvent(task_id=said.task_id, context_id=said.context_id, status=status)


def content_hash(message: Message) -> bytes:
    """Return a hash of what D17 calls a message's content: its parts, role, taskId, references and extensions."""
    content = Message(
        role=message.role,
        task_id=message.task_id,
        parts=message.parts,
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
    )
    return hashlib.sha256(content.SerializeToString(deterministic=True)).digest()


def is_in(task: Task, message: Message) -> bool:
    """Tell whether the task has taken the message in already: its record outlives the message's own key.

    Raises MessageIdReused where it holds another one under its id.
    """
    held = next((said for said in task.history if said.message_id == message.message_id), None)
    if held is None or held.role != Role.ROLE_USER:
        return False
    # A client that answers a question need not name its task; the history always does.
    as_sent = Message()
    as_sent.CopyFrom(held)
    as_sent.task_id = message.task_id
    repeat_of(content_hash(message), task.id, content_hash(as_sent))
    return True


def repeat_of(content_hash: bytes, task_id: str, known_hash: bytes) -> Repeated:
    """Return the task of a message that is known.

    Raises MessageIdReused where its content was another (D17).
    """
    if content_hash != known_hash:
        raise MessageIdReused(
            "This messageId, or Idempotency-Key, was used with other content. Give the new message one of its own."
        )
    return Repeated(task_id)


def too_many_wait() -> ContextBusy:
    """Return the refusal of one turn too many."""
    return ContextBusy(f"{MAX_WAITING} messages wait in this context already. Send this one when one is answered.")


def another_runs() -> ContextBusy:
    """Return the refusal of an answer that comes while another turn runs in the context."""
    return ContextBusy("Another message of this context is being answered. Send this one when that is done.")


def no_longer_asked() -> LeaseLost:
    """Return what happened where a task has gone on meanwhile."""
    return LeaseLost("The task is no longer as it was read.")


def nothing_left_to_do() -> IllegalMove:
    """Return the refusal to leave a task at work for which no turn waits: it would be at work for ever."""
    return IllegalMove("Nothing waits for the task: its turn has to end it, or to ask.")


def first_log(new: NewTask) -> tuple[Numbered, ...]:
    """Return a new task's log."""
    return tuple(
        Numbered(number, event, request=new.request if number == 1 else {})
        for number, event in enumerate(new.events, start=1)
    )


def first_head(new: NewTask) -> Head:
    """Return the head of a new task after its first events; no lease is held yet."""
    head = Head(
        new.key,
        new.context,
        TaskState.TASK_STATE_SUBMITTED,
        datetime.fromtimestamp(0, UTC),
        generation=0,
        fence=0,
    )
    for event in new.events:
        head = lifecycle.advance(head, event)
    return head
