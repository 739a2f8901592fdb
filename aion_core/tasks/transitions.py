"""Transitions of a turn (begin, append, suspend, end, cancel), computed from the records as read. Pure.

A transition holds the outcome and the changes of one transaction. Each change has a condition on the data that the
decision used. If a condition fails, the store reads the records again and computes another transition.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from aion_core.errors import LeaseLost, PendingInput
from aion_core.ports import ContextKey, Head, Lease, StoppedBy, Turn, TurnFinished, TurnStarted
from aion_core.ports.table import Change
from aion_core.protocol.types import Event, Message, stream_response
from aion_core.tasks import admission, contexts, lifecycle
from aion_core.tasks.contexts import ContextRecord, Times
from aion_core.tasks.lifecycle import HeadMove, NewEvent, Transition, new_event


class QueuedMessage(Struct, frozen=True):
    """A message to a running task, queued until its own turn begins, with the metadata of its request."""

    message: Message | None = None
    """None if the message's item is missing or unreadable. Its turn then begins and fails."""
    request: Mapping[str, Any] = field(default_factory=dict)


def token_of(lease: Lease, generation: int, event: Event) -> str:
    """Return the idempotency token for the write of this event. A repeated write has the same token."""
    digest = hashlib.sha256(stream_response(event).SerializeToString()).hexdigest()
    return f"{lease.holder}#{lease.fence}#{generation}#{digest}"


def lost() -> LeaseLost:
    """Return the error for a write under a lease that another holder has since taken over."""
    return LeaseLost("Another holder runs this context now.")


# ── A turn begins ─────────────────────────────────────────────────────────────────────────────────────────────────────


def is_over(head: Head | None) -> bool:
    """Return True if the task can have no further turn: it has ended, or it expired in the queue."""
    return head is None or head.state in lifecycle.TERMINAL


def dropped(record: ContextRecord, task_id: str, times: Times) -> Transition[None]:
    """Return the transition to remove an ended task from its context's record, so that the context is not blocked."""
    return Transition(None, contexts.removed(task_id, record, record.fence + 1, times))


def taken_over(turn: Turn, record: ContextRecord) -> Turn:
    """Return the turn for its next holder. If the last holder died, `stopped_by` is WORKER.

    If the dead holder stored a step, `tries` is 1, for its own try at the unfinished step. The earlier tries count as
    handoffs, so that a turn with progress but without an end finally fails. Recorded events do not count as progress,
    because a repeated step repeats them.
    """
    if not record.holder:
        return turn
    turn = replace(turn, stopped_by=StoppedBy.WORKER)
    if record.advanced != record.fence:
        return turn
    return replace(turn, tries=1, handoffs=turn.handoffs + turn.tries - 1)


def begun(
    context: ContextKey,
    turn: Turn,
    record: ContextRecord,
    head: Head,
    queued: QueuedMessage | None,
    *,
    holder: str,
    times: Times,
) -> Transition[TurnStarted]:
    """Return the transition to begin a turn.

    `queued` is the turn's message if it was queued while its task was running.
    """
    lease, head_move, events = _beginning(Lease(context, turn, holder, record.fence + 1), head, queued, times)
    acquire = contexts.acquired_abandoned if record.running else contexts.acquired_next
    return Transition(
        TurnStarted(lease, head_move.after),
        acquire(lease, record, times),
        (head_move,),
        events,
        recorded_message=None if turn.message_generation else (head.key, turn.id),
    )


def _beginning(
    lease: Lease, head: Head, queued: QueuedMessage | None, times: Times
) -> tuple[Lease, HeadMove, tuple[NewEvent, ...]]:
    turn = lease.turn
    lease = replace(lease, turn=replace(turn, tries=turn.tries + 1))
    if turn.message_generation:
        return lease, HeadMove(lifecycle.fenced(head, lease.fence), replace(head, fence=lease.fence)), ()
    queued = queued or QueuedMessage()
    event = admission.working_event(head, contexts.moment(times.now))
    after = replace(lifecycle.advance(head, event), fence=lease.fence)
    lease = replace(lease, turn=replace(lease.turn, message_generation=after.generation))
    recorded = new_event(after, after.generation, event, message=queued.message, request=queued.request)
    return lease, HeadMove(lifecycle.moved(head, after), after), (recorded,)


# ── A turn runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def appended(lease: Lease, head: Head, event: Event, *, key: str) -> Transition[Head]:
    """Return the transition to append an event of a running turn to its task's log."""
    after = lifecycle.advance(head, event)
    token = token_of(lease, after.generation, event)
    row = new_event(head, after.generation, event, key=key, token=token)
    return Transition(after, None, (HeadMove(lifecycle.moved(head, after), after),), (row,))


def still_mine(head: Head, now: Head | None) -> Head:
    """Return the task's head with its current push subscribers, for a second attempt to write.

    Raises LeaseLost if the task's events or fence have changed since `head` was read.
    """
    if now is None or (now.generation, now.fence) != (head.generation, head.fence):
        raise lost()
    return replace(head, push_epoch=now.push_epoch, push_events=now.push_events)


def suspended(lease: Lease, times: Times, *, made_progress: bool, stopped_by: StoppedBy | None) -> tuple[Turn, Change]:
    """Return the suspended turn, and the change of its context's record.

    A suspension after progress counts as a handoff and resets the tries. If `stopped_by` is None, the agent never ran,
    and the try does not count.
    """
    turn = lease.turn
    if made_progress:
        turn = replace(turn, tries=0, handoffs=turn.handoffs + 1, stopped_by=stopped_by)
    elif stopped_by is None:
        turn = replace(turn, tries=max(0, turn.tries - 1))
    else:
        turn = replace(turn, stopped_by=stopped_by)
    return turn, contexts.suspended(lease, turn, times)


# ── A turn ends ───────────────────────────────────────────────────────────────────────────────────────────────────────


class TurnEnding(Struct, frozen=True, dict=True):
    """Input for the end of a turn: its lease, the task's head (current state), its last event, and `run_next`."""

    lease: Lease
    head: Head
    event: Event
    run_next: bool
    """True if the same lease holder is to run the next queued turn."""

    @cached_property
    def after(self) -> Head:
        """Return the task's head after the turn's last event."""
        return lifecycle.advance(self.head, self.event)

    @property
    def token(self) -> str:
        """Return the token that identifies the write of the turn's last event."""
        return token_of(self.lease, self.after.generation, self.event)

    @property
    def requires_input(self) -> bool:
        """True if the turn's last event interrupts the task."""
        return self.after.state in lifecycle.INTERRUPTED

    @property
    def stops_task(self) -> bool:
        """True if the turn's last event ends or interrupts the task."""
        return self.after.state in lifecycle.TERMINAL_OR_INTERRUPTED


def finished_alone(ending: TurnEnding) -> Transition[TurnFinished]:
    """Return the transition to end a turn when no turn follows: the queue is empty, or the task requires input."""
    after = ending.after
    release = contexts.released_for_input if ending.requires_input else contexts.released
    return Transition(
        TurnFinished(after),
        release(ending.lease),
        (HeadMove(lifecycle.moved(ending.head, after), after),),
        (new_event(ending.head, after.generation, ending.event, token=ending.token),),
    )


def next_turn(ending: TurnEnding, record: ContextRecord) -> Turn | None:
    """Return the next queued turn of the context, None if the queue is empty.

    Raises LeaseLost. Raises PendingInput if the event ends the task while a message for it is queued, and
    InvalidTransition if the event leaves the task working without a queued message.
    """
    if record.fence != ending.lease.fence:
        raise lost()
    waits = record.waits_for(ending.head.key.task_id)
    if ending.after.state in lifecycle.TERMINAL and waits:
        raise PendingInput("A message waits for this task.")
    if not ending.stops_task and not waits:
        raise admission.no_turn_waits()
    return next(iter(record.waiting), None)


def finished(
    ending: TurnEnding,
    record: ContextRecord,
    turn: Turn,
    next_head: Head | None,
    queued: QueuedMessage | None,
    *,
    times: Times,
) -> Transition[TurnFinished]:
    """Return the transition to end a turn while another turn is queued. This or another holder runs the next turn."""
    lease, head, after = ending.lease, ending.head, ending.after
    row = new_event(head, after.generation, ending.event, token=ending.token)
    move = HeadMove(lifecycle.moved(head, after), after)
    same_task = turn.task_id == head.key.task_id
    if same_task:
        next_head = after
    if not ending.run_next or next_head is None:
        return Transition(TurnFinished(after, waiting=True), contexts.released_for_next(record, times), (move,), (row,))
    to_begin = replace(lease, turn=turn, fence=record.fence + 1)
    next_lease, next_move, events = _beginning(to_begin, next_head, queued, times)
    # Make one change of the task's head for both events, because a transaction may write each item only once.
    moves = (HeadMove(lifecycle.moved(head, next_move.after), next_move.after),) if same_task else (move, next_move)
    return Transition(
        TurnFinished(after, next=TurnStarted(next_lease, next_move.after)),
        contexts.transferred(next_lease, record, times),
        moves,
        (row, *events),
        recorded_message=None if turn.message_generation else (next_head.key, turn.id),
    )


def finished_before(ending: TurnEnding, record: ContextRecord, next_head: Head | None) -> TurnFinished:
    """Return the outcome of an earlier attempt to end the turn. Its response was lost.

    `next_head` is the head of the task whose turn now runs in the context.
    """
    lease = ending.lease
    mine = record.running is not None and record.fence == lease.fence + 1 and record.holder == lease.holder
    if mine and next_head is not None:
        return TurnFinished(ending.after, next=TurnStarted(record.lease(lease.context), next_head))
    return TurnFinished(ending.after, waiting=_has_free_turn(record))


def canceled(head: Head, event: Event, record: ContextRecord, *, token: str, times: Times) -> Transition[TurnFinished]:
    """Return the transition to cancel a task and remove its running and queued turns."""
    task_id = head.key.task_id
    # Cancelling a queued task must not change the fence, because another task's turn may be running.
    takes = record.running is None or record.runs(task_id)
    fence = record.fence + 1 if takes else record.fence
    after = replace(lifecycle.advance(head, event), fence=max(fence, head.fence))
    waiting = takes and bool(record.without(task_id)) and record.interrupted in (None, task_id)
    return Transition(
        TurnFinished(after, waiting=waiting),
        contexts.removed(task_id, record, fence, times),
        (HeadMove(lifecycle.moved(head, after), after),),
        (new_event(head, after.generation, event, token=token),),
    )


def canceled_before(head: Head, now: Head | None, event: Event, record: ContextRecord) -> TurnFinished:
    """Return the outcome of an earlier attempt to cancel the task. Its response was lost."""
    after = now if now is not None else lifecycle.advance(head, event)
    return TurnFinished(after, waiting=_has_free_turn(record))


def _has_free_turn(record: ContextRecord) -> bool:
    return record.running is None and record.interrupted is None and bool(record.waiting)
