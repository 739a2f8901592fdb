"""Changes of a context's record. Pure.

The condition of each change covers those parts of the record that the decision depends on. `fence` (fencing token)
counts the leases; `queue_version` counts the changes of the queue.

    acquired, acquired_for_input, acquired_next,    a turn runs: for a new message, for an answer, from the queue,
    acquired_abandoned, acquired_interrupting       after a suspension or a dead holder, or in place of a running turn
    queued, queued_anew, queued_first               a turn waits
    renewed                                         the holder of the lease is alive
    released, released_for_input                    the turn has ended: the queue is empty, or waits for input
    transferred, released_for_next                  the turn has ended: its holder, or another holder, runs the next
    advanced                                        the running turn has stored a step
    suspended                                       the turn has not ended, but its holder's deadline is near
    put_to_wait, looked, called_back                the turn waits for a time or a remote agent, and still does
    removed                                         the task has ended: it neither runs nor waits
"""

from typing import Any

from msgspec.structs import replace

from aion_core.engine.context.conditions import (
    NO_INPUT_REQUIRED,
    NOTHING_RUNS,
    NOTHING_WAITS,
    fence_is,
    has_expired,
    is_mine,
    queue_as_read,
)
from aion_core.engine.context.record import ContextRecord, turn_value
from aion_core.engine.records import Lease, Turn
from aion_core.engine.task.transition import Transition
from aion_core.table import keys
from aion_core.table.conditions import Absent, Both, Condition, Equals, Exists
from aion_core.table.keys import ContextKey, TimerOf
from aion_core.table.times import Times
from aion_core.table.writes import Change, Update

LEASE_ATTRIBUTES = ("holder", "until", "running")
TIMER_ATTRIBUTES = ("due_at", "due_shard")


def acquired(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease the turn of a new message. The context is free, new or expired."""
    values = _leased(lease, times, **times.stamp(lease.context.owner))
    if not record.exists:
        return Change(values, only_if=Absent())
    if record.expired:
        return Change(values, remove=("waiting", "interrupted"), only_if=has_expired(record, times))
    free = Both((fence_is(record.fence), NOTHING_RUNS, NO_INPUT_REQUIRED, NOTHING_WAITS))
    return Change(values, only_if=free)


def acquired_for_input(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease the turn of a message that answers the interrupted task."""
    requires_input = Equals("interrupted", lease.turn.task_id)
    return Change(
        _leased(lease, times, expires=times.expires),
        remove=("interrupted",),
        only_if=Both((fence_is(record.fence), NOTHING_RUNS, requires_input)),
    )


def acquired_next(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease the first waiting turn, `lease.turn`, and remove it from the queue."""
    return Change(
        _leased(lease, times, queue_version=record.queue_version + 1),
        drop_first=("waiting",),
        only_if=Both((fence_is(record.fence), NOTHING_RUNS, NO_INPUT_REQUIRED, queue_as_read(record))),
    )


def acquired_abandoned(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease a suspended turn or a dead holder's turn. It fails if the lease was renewed."""
    return Change(_leased(lease, times), only_if=Both((fence_is(record.fence), Equals("until", record.until))))


def acquired_interrupting(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to lease a turn that replaces the running turn of its task. The old holder may be alive."""
    return Change(_leased(lease, times, expires=times.expires), only_if=fence_is(record.fence))


def _leased(lease: Lease, times: Times, **more: Any) -> dict[str, Any]:
    return {
        "fence": lease.fence,
        "holder": lease.holder,
        "until": times.lease_until,
        "running": turn_value(lease.turn),
        "due_at": times.lease_until,
        "due_shard": TimerOf.LEASE,
        **more,
    }


def _awaited(times: Times) -> dict[str, Any]:
    """Return the timer of a turn that waits for a wake-up message. `context_update` completes the partition."""
    return {"due_at": times.lease_until, "due_shard": TimerOf.WAIT}


def renewed(lease: Lease, times: Times) -> Change:
    """Return the change to extend a lease for another term."""
    until = times.lease_until
    return Change({"until": until, "due_at": until, "expires": times.expires}, only_if=is_mine(lease))


def advanced(fence: int) -> Change:
    """Return the change to record that an agent has stored a step under the lease with this fence."""
    return Change({"advanced": fence}, only_if=fence_is(fence))


def queued(owner: str, turn: Turn, only_if: Condition, times: Times, *, timer: bool = True) -> Change:
    """Return the change to append a turn to the context's queue.

    Pass `timer=False` while a task of the context requires input: the client's answer sets the timer.
    """
    return Change(
        times.stamp(owner),
        defaults={"fence": 0, **(_awaited(times) if timer else {})},
        add={"queue_version": 1},
        append={"waiting": [turn_value(turn)]},
        only_if=only_if,
    )


def queued_anew(owner: str, turn: Turn, record: ContextRecord, times: Times) -> Change:
    """Return the change to replace the queue of an expired context by this turn."""
    return Change(
        {
            "waiting": [turn_value(turn)],
            "queue_version": record.queue_version + 1,
            **_awaited(times),
            **times.stamp(owner),
        },
        remove=("interrupted", *LEASE_ATTRIBUTES),
        only_if=has_expired(record, times),
    )


def queued_first(turn: Turn, record: ContextRecord, fence: int, times: Times, *, answers: bool) -> Change:
    """Return the change to put a turn first in the queue and release the lease.

    With `answers` the turn answers the interrupted task. Otherwise it replaces the running turn of its task.
    """
    expected = Both((NOTHING_RUNS, Equals("interrupted", turn.task_id))) if answers else Exists("running")
    return Change(
        {
            "waiting": [turn_value(each) for each in (turn, *record.waiting)],
            "queue_version": record.queue_version + 1,
            "fence": fence,
            **_awaited(times),
            "expires": times.expires,
        },
        remove=("interrupted", *LEASE_ATTRIBUTES),
        only_if=Both((fence_is(record.fence), queue_as_read(record), expected)),
    )


def released(lease: Lease) -> Change:
    """Return the change to release the lease after a turn. The context is then free. Requires an empty queue."""
    return Change(remove=(*LEASE_ATTRIBUTES, *TIMER_ATTRIBUTES), only_if=Both((fence_is(lease.fence), NOTHING_WAITS)))


def released_for_input(lease: Lease) -> Change:
    """Return the change to release the lease and record that the task requires input. Queued turns wait for it."""
    return Change(
        {"interrupted": lease.turn.task_id},
        remove=(*LEASE_ATTRIBUTES, *TIMER_ATTRIBUTES),
        only_if=fence_is(lease.fence),
    )


def released_for_next(record: ContextRecord, times: Times) -> Change:
    """Return the change to release the lease after a turn, so that any process can run the next queued turn."""
    return Change(
        _awaited(times),
        remove=LEASE_ATTRIBUTES,
        only_if=Both((fence_is(record.fence), queue_as_read(record))),
    )


def transferred(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Return the change to end a turn and lease the next queued turn to the same holder."""
    return Change(
        _leased(lease, times, queue_version=record.queue_version + 1),
        drop_first=("waiting",),
        only_if=Both((fence_is(record.fence), queue_as_read(record))),
    )


def suspended(lease: Lease, turn: Turn, times: Times) -> Change:
    """Return the change to suspend a turn, so that another holder can lease it."""
    return Change(
        # Remove the holder and set the lease's end to 0, so that a process with a slow clock sees no lease in force.
        {"until": 0, "running": turn_value(turn), "expires": times.expires, **_awaited(times)},
        remove=("holder",),
        only_if=is_mine(lease),
    )


def put_to_wait(lease: Lease, turn: Turn, look_at: int, times: Times) -> Change:
    """Return the change to suspend a turn that waits. `look_at` is the time of the next look, in milliseconds.

    The fence grows, so that nothing that the turn has left running can write while it waits.
    """
    return Change(
        {
            "fence": lease.fence + 1,
            "until": look_at,
            "running": turn_value(turn),
            "expires": times.expires,
            **_looked_at(look_at, times),
        },
        remove=("holder",),
        only_if=is_mine(lease),
    )


def looked(before: int, look_at: int, times: Times) -> Change:
    """Return the change to move the next look of a suspended turn from `before` to `look_at`, in milliseconds."""
    is_suspended = Both((Exists("running"), Equals("until", before), Absent("holder")))
    return Change({"until": look_at, **_looked_at(look_at, times)}, only_if=is_suspended)


def called_back(turn: Turn, record: ContextRecord, times: Times) -> Change:
    """Return the change to look at a suspended turn now. `turn` is the turn as it expects the callback no more."""
    look = looked(record.until, times.now, times)
    assert look.only_if is not None  # noqa: S101  # see `looked`
    is_same = Both((look.only_if, fence_is(record.fence)))
    return replace(look, values={**look.values, "running": turn_value(turn)}, only_if=is_same)


def _looked_at(look_at: int, times: Times) -> dict[str, Any]:
    """Return the timer of a look, for the case that its wake-up message is lost. `context_update` completes it."""
    return {"due_at": look_at + times.lease, "due_shard": TimerOf.LEASE}


def removed(task_id: str, record: ContextRecord, fence: int, times: Times) -> Change:
    """Return the change to remove an ended or deleted task from its context: its turns and its interrupt."""
    waiting = record.without(task_id)
    runs, requires_input = record.runs(task_id), record.interrupted == task_id
    another_runs = record.running is not None and not runs
    another_requires_input = record.interrupted is not None and not requires_input
    remove = (*(LEASE_ATTRIBUTES if runs else ()), *(("interrupted",) if requires_input else ()))
    values: dict[str, Any] = {
        "waiting": [turn_value(turn) for turn in waiting],
        "queue_version": record.queue_version + 1,
        "fence": fence,
    }
    if waiting and not another_runs and not another_requires_input:
        values |= _awaited(times)
    elif not another_runs:
        remove = (*remove, *TIMER_ATTRIBUTES)
    return Change(values, remove=remove, only_if=Both((fence_is(record.fence), queue_as_read(record))))


def dropped(record: ContextRecord, task_id: str, times: Times) -> Transition[None]:
    """Return the transition to remove an ended task from its context's record, so that the context is not blocked."""
    return Transition(None, removed(task_id, record, record.fence + 1, times))


def context_update(context: ContextKey, change: Change) -> Update:
    """Return the write for a context's change, with the index partition of its timer's kind."""
    if kind := change.values.get("due_shard"):
        change = replace(change, values={**change.values, "due_shard": keys.timer_shard(context, kind)})
    if kind := change.defaults.get("due_shard"):
        change = replace(change, defaults={**change.defaults, "due_shard": keys.timer_shard(context, kind)})
    return Update(keys.context_key(context), change)
