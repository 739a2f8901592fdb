"""Admission of a message: decides if it creates a task, follows up an existing task, or repeats a message. Pure."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.errors import ContextBusy, InvalidTransition, LeaseLost, MessageIdReused
from aion_core.ports import (
    MAX_WAITING,
    ContextInUse,
    ContextKey,
    Duplicate,
    FollowUp,
    Head,
    Interrupted,
    Lease,
    Log,
    NewTask,
    Numbered,
    PushConfig,
    TaskKey,
    Turn,
    TurnQueued,
    TurnStarted,
    WhenBusy,
)
from aion_core.ports.table import Change
from aion_core.protocol.message_rules import names_interrupt
from aion_core.protocol.types import Message, Part, Role, Task, TaskState, TaskStatusUpdateEvent
from aion_core.tasks import contexts, lifecycle
from aion_core.tasks.contexts import ContextRecord, Times
from aion_core.tasks.lifecycle import HeadMove, NewEvent, Transition, new_event

KEEP_LONGER = 24 * 3600
"""Least number of seconds (or half a retention) by which a follow-up extends a TTL: each extension costs a snapshot."""


class KnownMessage(Struct, frozen=True):
    """Record of a stored message id or idempotency key: its task and a hash of its content."""

    task_id: str
    content_hash: bytes

    def repeated(self, content_hash: bytes) -> Duplicate:
        """Return the Duplicate outcome if this hash equals the stored one; otherwise raise MessageIdReused."""
        return repeat_of(content_hash, self.task_id, self.content_hash)


# ── A new task ────────────────────────────────────────────────────────────────────────────────────────────────────────


def created_before(new: NewTask, record: ContextRecord, head: Head, holder: str | None) -> TurnStarted | TurnQueued:
    """Return the outcome of an earlier `create` with the same turn. The caller did not get its response."""
    if record.has(new.turn, holder):
        return TurnStarted(record.lease(new.context), head)
    return TurnQueued(head, record.held_until())


def refused(record: ContextRecord, when_busy: WhenBusy) -> Interrupted | ContextInUse | None:
    """Return the reason to refuse a new task in this context, or None if the task may be created."""
    if record.interrupted is not None:
        return Interrupted(record.interrupted)
    if record.busy and when_busy is not WhenBusy.ENQUEUE:
        return ContextInUse(record.active_task)
    return None


def answers_nothing(new: NewTask, record: ContextRecord) -> bool:
    """Return True if the new task's message answers a question, but no task of the context requires input."""
    task = new.events[0]
    return record.interrupted is None and isinstance(task, Task) and names_interrupt(task.history[0])


def is_full(record: ContextRecord) -> bool:
    """Return True if the queue in the context's record has no room for another turn."""
    return len(record.waiting) >= MAX_WAITING


def created(
    new: NewTask, record: ContextRecord, *, holder: str | None, when_busy: WhenBusy, times: Times
) -> Transition[TurnStarted | TurnQueued]:
    """Return the transition to create a task. Its turn gets the lease in a free context; otherwise it is queued."""
    head = first_head(new)
    if new.push is not None:
        head = lifecycle.head_with_subscriber(head, new.push)
    outcome: TurnStarted | TurnQueued
    if holder is not None and not record.busy:
        lease = Lease(new.context, replace(new.turn, tries=1), holder, record.fence + 1)
        head = replace(head, fence=lease.fence)
        outcome, change = TurnStarted(lease, head), contexts.acquired(lease, record, times)
    else:
        outcome, change = TurnQueued(head, record.held_until()), _queued(new, record, holder, when_busy, times)
    return Transition(outcome, change, events=_events(new, head))


def _queued(new: NewTask, record: ContextRecord, holder: str | None, when_busy: WhenBusy, times: Times) -> Change:
    if record.expired:
        return contexts.queued_anew(new.turn, record, times)
    if holder is not None:
        # In a busy context, the lease holder of the running turn also runs the next turn, without a wake-up message.
        return contexts.queued(new.turn, contexts.MAY_WAIT_BEHIND_OTHERS, times)
    only_if = contexts.MAY_WAIT if when_busy is WhenBusy.ENQUEUE else contexts.MAY_WAIT_ALONE
    return contexts.queued(new.turn, only_if, times)


def _events(new: NewTask, head: Head) -> tuple[NewEvent, ...]:
    return tuple(
        new_event(head, generation, event, request=new.request if generation == 1 else {})
        for generation, event in enumerate(new.events, start=1)
    )


# ── A message to a task ───────────────────────────────────────────────────────────────────────────────────────────────


def takes_over(follow_up: FollowUp, record: ContextRecord, when_busy: WhenBusy) -> bool:
    """Return True if the message starts a turn at once: its task requires input, or it interrupts the task's turn."""
    head = follow_up.head
    return head.state in lifecycle.INTERRUPTED or (when_busy is WhenBusy.INTERRUPT and record.runs(head.key.task_id))


def another_runs(follow_up: FollowUp, record: ContextRecord) -> bool:
    """Return True if the task required input when it was read, but now a turn of its context is running."""
    return follow_up.head.state in lifecycle.INTERRUPTED and record.running is not None


def followed_before(
    follow_up: FollowUp, record: ContextRecord, head: Head, holder: str | None
) -> TurnStarted | TurnQueued | None:
    """Return the outcome of an earlier attempt to store this follow-up; None if another call stored the message."""
    if record.has(follow_up.turn, holder):
        return TurnStarted(record.lease(head.context), head)
    if any(turn.id == follow_up.turn.id for turn in record.waiting):
        return TurnQueued(head, record.held_until())
    return None


def has_changed(before: Head, now: Head | None, *, takes: bool, subscribes: bool = False) -> bool:
    """Return True if the task has changed since the head `before` was read, and the message must be admitted again."""
    if now is None:
        return True
    # Admit the message again if the push subscribers have changed, because the commit must notify all of them.
    if (takes or subscribes) and now.push_epoch != before.push_epoch:
        return True
    return now.generation != before.generation if takes else now.state in lifecycle.TERMINAL_OR_INTERRUPTED


def taken(
    follow_up: FollowUp,
    record: ContextRecord,
    *,
    holder: str | None,
    expires: int | None,
    token: str,
    times: Times,
) -> Transition[TurnStarted | TurnQueued]:
    """Return the transition to start a follow-up's turn at once. `expires` is the new TTL, None for the old TTL."""
    before = follow_up.head
    answers = before.state in lifecycle.INTERRUPTED
    subscribed = lifecycle.head_with_subscriber(before, follow_up.push) if follow_up.push is not None else before
    after = replace(lifecycle.advance(subscribed, follow_up.event), fence=record.fence + 1)
    outcome: TurnStarted | TurnQueued
    if holder is None:
        outcome = TurnQueued(after)
        change = contexts.queued_first(follow_up.turn, record, after.fence, times, answers=answers)
    else:
        lease = Lease(before.context, replace(follow_up.turn, tries=1), holder, after.fence)
        acquire = contexts.acquired_for_input if answers else contexts.acquired_interrupting
        outcome, change = TurnStarted(lease, after), acquire(lease, record, times)
    row = new_event(
        after, after.generation, follow_up.event, message=follow_up.message, request=follow_up.request, token=token
    )
    move = HeadMove(lifecycle.moved(before, after, expires=expires, fence=False), after)
    return Transition(outcome, change, (move,), (row,))


def queued(follow_up: FollowUp, record: ContextRecord, times: Times) -> Transition[TurnQueued]:
    """Return the transition to queue a follow-up behind the running turn of its task."""
    before = follow_up.head
    turn = replace(follow_up.turn, message_generation=0)
    if record.interrupted is not None:
        # Set no timer while a task requires input, because the client's answer sets the timer.
        change = contexts.queued(turn, contexts.HAS_ROOM, times, timer=False)
    else:
        change = contexts.queued(turn, contexts.MAY_WAIT, times)
    if follow_up.push is None:
        return Transition(TurnQueued(before, record.held_until()), change)
    after = lifecycle.head_with_subscriber(before, follow_up.push)
    move = HeadMove(lifecycle.subscribed(before, after, while_running=True), after)
    return Transition(TurnQueued(after, record.held_until()), change, (move,))


def new_expiry(head_expires: int | None, times: Times) -> int | None:
    """Return the task's TTL after a new message; None if the TTL would not grow by enough to be written."""
    if head_expires is None:
        return None
    grows_by = times.expires - head_expires
    return times.expires if grows_by > min(KEEP_LONGER, times.retention / 2) else None


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        status=lifecycle.status_at(TaskState.TASK_STATE_SUBMITTED, at),
        history=[stored],
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


def working_event(head: Head, at: datetime) -> TaskStatusUpdateEvent:
    """Return the status event that sets a task to working when a message is recorded."""
    return TaskStatusUpdateEvent(
        task_id=head.key.task_id,
        context_id=head.context.context_id,
        status=lifecycle.status_at(TaskState.TASK_STATE_WORKING, at),
    )


def canceled(head: Head, at: datetime, reason: str) -> TaskStatusUpdateEvent:
    """Return the status event that cancels a task. Its message has the reason."""
    message = Message(
        message_id=str(uuid7()),
        role=Role.ROLE_AGENT,
        task_id=head.key.task_id,
        context_id=head.context.context_id,
        parts=[Part(text=reason)],
    )
    status = lifecycle.status_at(TaskState.TASK_STATE_CANCELED, at)
    status.message.CopyFrom(message)
    return TaskStatusUpdateEvent(task_id=message.task_id, context_id=message.context_id, status=status)


def content_hash(message: Message) -> bytes:
    """Return a hash of a message's parts, role, taskId, references and extensions, to recognise repeats."""
    content = Message(
        role=message.role,
        task_id=message.task_id,
        parts=message.parts,
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
    )
    return hashlib.sha256(content.SerializeToString(deterministic=True)).digest()


def holds_message(task: Task, message: Message) -> bool:
    """Return True if the task's history has the message. The stored message key expires before the history.

    Raises MessageIdReused if the history has another message with this id.
    """
    held = next((each for each in task.history if each.message_id == message.message_id), None)
    if held is None or held.role != Role.ROLE_USER:
        return False
    # Compare with the taskId of the message, because the message may omit it and the history always has it.
    as_sent = Message()
    as_sent.CopyFrom(held)
    as_sent.task_id = message.task_id
    repeat_of(content_hash(message), task.id, content_hash(as_sent))
    return True


def repeated_at(message: Message, log: Log) -> int:
    """Return the number of the event that recorded a repeated message; 0 for the message that created the task.

    A stream after this event omits earlier questions: the client would ask its user again. If the log begins with a
    snapshot that holds the message, return the snapshot's number. A message that still waits for its turn is not
    recorded: return the number of the last event.
    """
    for each in log.events:
        held = [each.message] if each.message else each.event.history if isinstance(each.event, Task) else []
        if each.generation > 1 and any(one.message_id == message.message_id for one in held):
            return each.generation
    return log.head.generation if message.task_id else 0


def repeat_of(content_hash: bytes, task_id: str, known_hash: bytes) -> Duplicate:
    """Return the Duplicate outcome for a repeated message. Raises MessageIdReused if its content has changed."""
    if content_hash != known_hash:
        raise MessageIdReused(
            "This messageId or Idempotency-Key was used with other content. Use a new one for the new message."
        )
    return Duplicate(task_id)


def queue_is_full() -> ContextBusy:
    """Return the error for a message to a context with a full queue."""
    return ContextBusy(f"{MAX_WAITING} messages already wait in this context. Send this one after the next answer.")


def task_changed() -> LeaseLost:
    """Return the error for a write to a task that another process has changed since it was read."""
    return LeaseLost("The task has changed since it was read.")


def no_turn_waits() -> InvalidTransition:
    """Return the error for a turn that leaves its task working, although no further turn of the task is queued."""
    return InvalidTransition("No turn waits for the task: its last turn has to end or interrupt it.")


def first_log(new: NewTask) -> tuple[Numbered, ...]:
    """Return the first log entries of a new task, numbered from 1."""
    return tuple(
        Numbered(number, event, request=new.request if number == 1 else {})
        for number, event in enumerate(new.events, start=1)
    )


def first_head(new: NewTask) -> Head:
    """Return the head (state and event number) of a new task after its first events, before its first lease."""
    status = new.events[-1].status
    return Head(new.key, new.context, status.state, lifecycle.timestamp_of(status), generation=len(new.events), fence=0)
