"""Rules for a message to an existing task: whether its turn runs, waits or replaces the running one. Pure."""

from msgspec.structs import replace

from aion_core.engine.admission.messages import FollowUp
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.context import changes, conditions
from aion_core.engine.context.record import ContextRecord
from aion_core.engine.outcomes import TurnQueued, TurnStarted
from aion_core.engine.records import Head, Lease
from aion_core.engine.task import states, subscribers
from aion_core.engine.task.head import advance, moved, with_calls_as_read
from aion_core.engine.task.transition import HeadMove, Transition, new_event
from aion_core.table.times import Times

KEEP_LONGER = 24 * 3600
"""Least number of seconds (or half a retention) by which a follow-up extends a TTL: each extension costs a snapshot."""


def takes_over(follow_up: FollowUp, record: ContextRecord, when_busy: WhenBusy) -> bool:
    """Return True if the message starts a turn at once: its task requires input, or it interrupts the task's turn."""
    head = follow_up.head
    return head.state in states.INTERRUPTED or (when_busy is WhenBusy.INTERRUPT and record.runs(head.key.task_id))


def replaces(follow_up: FollowUp, record: ContextRecord) -> bool:
    """Return True if the message that takes over does not answer a question: it replaces the task's running turn."""
    return follow_up.head.state not in states.INTERRUPTED and record.runs(follow_up.head.key.task_id)


def another_runs(follow_up: FollowUp, record: ContextRecord) -> bool:
    """Return True if the task required input when it was read, but now a turn of its context is running."""
    return follow_up.head.state in states.INTERRUPTED and record.running is not None


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
    if takes and now.calls != before.calls:
        return True
    return now.generation != before.generation if takes else now.state in states.TERMINAL_OR_INTERRUPTED


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
    answers = before.state in states.INTERRUPTED
    subscribed = subscribers.head_with_subscriber(before, follow_up.push) if follow_up.push is not None else before
    after = replace(advance(subscribed, follow_up.event), fence=record.fence + 1)
    outcome: TurnStarted | TurnQueued
    if holder is None:
        outcome = TurnQueued(after)
        change = changes.queued_first(follow_up.turn, record, after.fence, times, answers=answers)
    else:
        lease = Lease(before.context, replace(follow_up.turn, tries=1), holder, after.fence)
        acquire = changes.acquired_for_input if answers else changes.acquired_interrupting
        outcome, change = TurnStarted(lease, after), acquire(lease, record, times)
    row = new_event(
        after, after.generation, follow_up.event, message=follow_up.message, request=follow_up.request, token=token
    )
    move = moved(before, after, expires=expires, fence=False)
    if replaces(follow_up, record):
        move = with_calls_as_read(move, before)
    return Transition(outcome, change, (HeadMove(move, after),), (row,))


def queued(follow_up: FollowUp, record: ContextRecord, times: Times) -> Transition[TurnQueued]:
    """Return the transition to queue a follow-up behind the running turn of its task."""
    before, owner = follow_up.head, follow_up.head.context.owner
    turn = replace(follow_up.turn, message_generation=0)
    if record.interrupted is not None:
        # Set no timer while a task requires input, because the client's answer sets the timer.
        change = changes.queued(owner, turn, conditions.HAS_ROOM, times, timer=False)
    else:
        change = changes.queued(owner, turn, conditions.MAY_WAIT, times)
    if follow_up.push is None:
        return Transition(TurnQueued(before, record.held_until()), change)
    after = subscribers.head_with_subscriber(before, follow_up.push)
    move = HeadMove(subscribers.subscribed(before, after, while_running=True), after)
    return Transition(TurnQueued(after, record.held_until()), change, (move,))


def new_expiry(head_expires: int | None, times: Times) -> int | None:
    """Return the task's TTL after a new message; None if the TTL would not grow by enough to be written."""
    if head_expires is None:
        return None
    grows_by = times.expires - head_expires
    return times.expires if grows_by > min(KEEP_LONGER, times.retention / 2) else None
