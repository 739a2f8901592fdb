"""Transitions of a running turn: it records an event, is suspended for another process, or waits. Pure."""

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from aion_core.engine.context import changes
from aion_core.engine.outcomes import TurnSuspended
from aion_core.engine.records import Head, Lease, StoppedBy, Turn, Wait
from aion_core.engine.task.head import advance, fenced, moved
from aion_core.engine.task.transition import HeadMove, Transition, new_event
from aion_core.engine.turn.wait import next_look, suspended_turn
from aion_core.errors import LeaseLost
from aion_core.protocol.types import Event, stream_response_bytes
from aion_core.table.times import Times, moment
from aion_core.table.writes import Change


def appended(lease: Lease, head: Head, events: Sequence[Event], keys: Sequence[str]) -> Transition[Head]:
    """Return the transition to append events of a running turn to its task's log, each with its key."""
    after, rows = head, []
    for event, key in zip(events, keys, strict=True):
        after = advance(after, event)
        token = token_of(lease, after.generation, event)
        rows.append(new_event(head, after.generation, event, key=key, token=token))
    return Transition(after, None, (HeadMove(moved(head, after), after),), tuple(rows))


def token_of(lease: Lease, generation: int, event: Event) -> str:
    """Return the idempotency token for the write of this event. A repeated write has the same token."""
    digest = hashlib.sha256(stream_response_bytes(event)).hexdigest()
    return f"{lease.holder}#{lease.fence}#{generation}#{digest}"


def still_mine(head: Head, now: Head | None) -> Head:
    """Return the task's head with its current push subscribers, for a second attempt to write.

    Raises LeaseLost if the task's events or fence have changed since `head` was read.
    """
    if now is None or (now.generation, now.fence) != (head.generation, head.fence):
        raise lost()
    return replace(head, push_epoch=now.push_epoch, push_events=now.push_events)


def suspended(lease: Lease, times: Times, *, made_progress: bool, stopped_by: StoppedBy | None) -> tuple[Turn, Change]:
    """Return the suspended turn, and the change of its context's record.

    A suspension after progress counts as a handoff, resets the tries and forgets the turn's last wait. If `stopped_by` is None, the agent never ran,
    and the try does not count.
    """
    turn = lease.turn
    if made_progress:
        turn = replace(turn, tries=0, handoffs=turn.handoffs + 1, stopped_by=stopped_by, wait=None)
    elif stopped_by is None:
        turn = replace(turn, tries=max(0, turn.tries - 1))
    else:
        turn = replace(turn, stopped_by=stopped_by)
    return turn, changes.suspended(lease, turn, times)


def put_to_wait(
    lease: Lease, head: Head, event: Event | None, wait: Wait, *, key: str, times: Times
) -> tuple[Transition[Head], TurnSuspended]:
    """Return the transition to suspend a turn that waits, and the suspended turn.

    `event` says what the turn waits for; None if an earlier try of the turn has recorded it under this key.
    """
    turn, look_at = suspended_turn(lease.turn, wait), next_look(wait, times.now)
    fence = lease.fence + 1
    change, suspended = changes.put_to_wait(lease, turn, look_at, times), TurnSuspended(turn, fence, moment(look_at))
    if event is None:
        after = replace(head, fence=fence)
        return Transition(after, change, (HeadMove(fenced(head, fence), after),)), suspended
    after = replace(advance(head, event), fence=fence)
    row = new_event(head, after.generation, event, key=key, token=token_of(lease, after.generation, event))
    return Transition(after, change, (HeadMove(moved(head, after), after),), (row,)), suspended


def lost() -> LeaseLost:
    """Return the error for a write under a lease that another holder has since taken over."""
    return LeaseLost("Another holder runs this context now.")


def task_changed() -> LeaseLost:
    """Return the error for a write to a task that another process has changed since it was read."""
    return LeaseLost("The task has changed since it was read.")
