"""Transitions to end a turn: by its last event, or by a cancellation of its task. Pure."""

from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from aion_core.engine.context import changes
from aion_core.engine.context.record import ContextRecord
from aion_core.engine.outcomes import TurnFinished, TurnStarted
from aion_core.engine.records import Head, Lease, Turn
from aion_core.engine.task import states
from aion_core.engine.task.head import advance, as_read, moved, with_calls_as_read
from aion_core.engine.task.transition import HeadMove, QueuedMessage, Transition, new_event
from aion_core.engine.turn.progress import lost, token_of
from aion_core.engine.turn.start import beginning
from aion_core.errors import InvalidTransition, PendingInput
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Event, Task, TaskStatusUpdateEvent
from aion_core.table.times import Times
from aion_core.table.writes import Change


class TurnEnding(Struct, frozen=True, dict=True):
    """Input for the end of a turn: its lease, the task's head (current state), and its last event."""

    lease: Lease
    head: Head
    event: Event

    @cached_property
    def after(self) -> Head:
        """Return the task's head after the turn's last event."""
        return advance(self.head, self.event)

    @property
    def token(self) -> str:
        """Return the token that identifies the write of the turn's last event."""
        return token_of(self.lease, self.after.generation, self.event)

    @property
    def requires_input(self) -> bool:
        """True if the turn's last event interrupts the task."""
        return self.after.state in states.INTERRUPTED

    @property
    def stops_task(self) -> bool:
        """True if the turn's last event ends or interrupts the task."""
        return self.after.state in states.TERMINAL_OR_INTERRUPTED


def finished_alone(ending: TurnEnding) -> Transition[TurnFinished]:
    """Return the transition to end a turn when no turn follows: the queue is empty, or the task requires input."""
    after = ending.after
    release = changes.released_for_input if ending.requires_input else changes.released
    return Transition(
        TurnFinished(after),
        release(ending.lease),
        (HeadMove(moved(ending.head, after), after),),
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
    if ending.after.state in states.TERMINAL and waits:
        raise PendingInput("A message waits for this task.")
    if not ending.stops_task and not waits:
        raise no_turn_waits()
    return next(iter(record.waiting), None)


def finished(
    ending: TurnEnding,
    record: ContextRecord,
    turn: Turn,
    next_head: Head | None,
    queued: QueuedMessage | None,
    *,
    times: Times,
    run_next: bool,
) -> Transition[TurnFinished]:
    """Return the transition to end a turn while another turn is queued. With `run_next`, this holder begins that turn."""
    lease, head, after = ending.lease, ending.head, ending.after
    row = new_event(head, after.generation, ending.event, token=ending.token)
    move = HeadMove(moved(head, after), after)
    same_task = turn.task_id == head.key.task_id
    if same_task:
        next_head = after
    if not run_next or next_head is None:
        return Transition(TurnFinished(after, waiting=True), changes.released_for_next(record, times), (move,), (row,))
    to_begin = replace(lease, turn=turn, fence=record.fence + 1)
    next_lease, next_move, events = beginning(to_begin, next_head, queued, times)
    # Make one change of the task's head for both events, because a transaction may write each item only once.
    moves = (HeadMove(moved(head, next_move.after), next_move.after),) if same_task else (move, next_move)
    return Transition(
        TurnFinished(after, next=TurnStarted(next_lease, next_move.after)),
        changes.transferred(next_lease, record, times),
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
    after = replace(advance(head, event), fence=max(fence, head.fence))
    waiting = takes and bool(record.without(task_id)) and record.interrupted in (None, task_id)
    return Transition(
        TurnFinished(after, waiting=waiting),
        changes.removed(task_id, record, fence, times),
        (HeadMove(with_calls_as_read(moved(head, after), head), after),),
        (new_event(head, after.generation, event, token=token),),
    )


UNREACHED = "aion:agentsNotReached"
"""Key of a canceled task's metadata: the remote agents whose tasks could not be canceled, because they did not answer."""


def unreached(head: Head, task: Task, remote: str) -> Transition[None] | None:
    """Return the transition that adds a remote agent to UNREACHED; None if it is there already.

    It is the only event that may follow the end of a task. The task's status stays as it is.
    """
    known = [str(each) for each in to_json(task.metadata).get(UNREACHED, ())]
    if remote in known:
        return None
    event = TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
    event.metadata.update({UNREACHED: [*known, remote]})
    after = replace(head, generation=head.generation + 1)
    move = HeadMove(Change({"generation": after.generation}, only_if=as_read(head, fence=True)), after)
    return Transition(None, None, (move,), (new_event(head, after.generation, event),))


def canceled_before(head: Head, now: Head | None, event: Event, record: ContextRecord) -> TurnFinished:
    """Return the outcome of an earlier attempt to cancel the task. Its response was lost."""
    after = now if now is not None else advance(head, event)
    return TurnFinished(after, waiting=_has_free_turn(record))


def _has_free_turn(record: ContextRecord) -> bool:
    return record.running is None and record.interrupted is None and bool(record.waiting)


def no_turn_waits() -> InvalidTransition:
    """Return the error for a turn that leaves its task working, although no further turn of the task is queued."""
    return InvalidTransition("No turn waits for the task: its last turn has to end or interrupt it.")
