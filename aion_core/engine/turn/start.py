"""Transition to begin a turn: it takes the lease, and a dead holder's turn begins again. Pure."""

from msgspec.structs import replace

from aion_core.engine.context import changes
from aion_core.engine.context.record import ContextRecord
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.records import Head, Lease, StoppedBy, Turn
from aion_core.engine.task import updates
from aion_core.engine.task.head import advance, fenced, moved
from aion_core.engine.task.transition import HeadMove, NewEvent, QueuedMessage, Transition, new_event
from aion_core.table.keys import ContextKey
from aion_core.table.times import Times, moment


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
    lease, head_move, events = beginning(Lease(context, turn, holder, record.fence + 1), head, queued, times)
    acquire = changes.acquired_abandoned if record.running else changes.acquired_next
    return Transition(
        TurnStarted(lease, head_move.after),
        acquire(lease, record, times),
        (head_move,),
        events,
        recorded_message=None if turn.message_generation else (head.key, turn.id),
    )


def beginning(
    lease: Lease, head: Head, queued: QueuedMessage | None, times: Times
) -> tuple[Lease, HeadMove, tuple[NewEvent, ...]]:
    """Return the lease of a turn that begins, the change of its task's head, and the event of a queued message."""
    turn = lease.turn
    lease = replace(lease, turn=replace(turn, tries=turn.tries + 1))
    if turn.message_generation:
        return lease, HeadMove(fenced(head, lease.fence), replace(head, fence=lease.fence)), ()
    queued = queued or QueuedMessage()
    event = updates.working_event(head, moment(times.now))
    after = replace(advance(head, event), fence=lease.fence)
    lease = replace(lease, turn=replace(lease.turn, message_generation=after.generation))
    recorded = new_event(after, after.generation, event, message=queued.message, request=queued.request)
    return lease, HeadMove(moved(head, after), after), (recorded,)
