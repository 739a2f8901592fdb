"""The record of a context (its lease, its queue of waiting turns, its task that requires input) and its changes. Pure.

Each change is conditional on what its caller has read or holds; `fence` counts the leases, `line` the changes of the
queue:

    acquired, acquired_for_input, acquired_next,    a turn runs: of a new message, of an answer, of the queue, of a dead
    acquired_abandoned, acquired_interrupting       holder, in the place of one that is interrupted
    queued, queued_anew, queued_first               a turn waits
    renewed                                         the holder of the lease is alive
    released, released_for_input                    the turn is over: nothing waits, or what waits waits for input
    transferred, left                               the turn is over: the same holder runs the next, or somebody else
    suspended                                       the turn is not over, but its holder's time is up
    removed                                         the task has ended: it neither runs nor waits
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aion_core.errors import StoreCorrupt
from aion_core.ports import MAX_WAITING, ContextKey, Lease, LeaseHeld, TaskKey, Turn
from aion_core.ports.table import (
    Absent,
    AtMost,
    Both,
    Change,
    Condition,
    Either,
    Equals,
    Exists,
    Item,
    NotEmpty,
    ShorterThan,
)

CLAIM_TERMS = 2
"""For how many terms of a lease an expired timer that somebody has claimed is left alone."""

VERSION = 2
"""Version of the items' shape. 2: a context counts the changes of its queue, and has a timer; a turn has hops."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one attempt to write, from one reading of the clock."""

    now: int
    """Milliseconds since 1970."""
    lease: int
    """Term of a lease in milliseconds."""
    retention: int
    """Seconds for which what is written now is stored."""

    @property
    def seconds(self) -> int:
        """Return the time in seconds: an item with this TTL, or a lower one, has expired."""
        return self.now // 1000

    @property
    def expires(self) -> int:
        """Return the TTL of what is written now, in seconds."""
        return self.seconds + self.retention

    @property
    def lease_until(self) -> int:
        """Return the end of a lease that is acquired now; a message that is enqueued now has had its time by then."""
        return self.now + self.lease

    @property
    def claimed_until(self) -> int:
        """Return the end of a claim that is made now."""
        return self.now + self.lease * CLAIM_TERMS

    @property
    def ttl(self) -> dict[str, int]:
        """Return the attributes of every item that is stored as long as its task."""
        return {"v": VERSION, "expires": self.expires}


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A context as read; times are milliseconds since 1970."""

    fence: int = 0
    queue_version: int = 0
    """Number of changes of the queue of waiting turns: tells whether the queue is still as read."""
    holder: str = ""
    until: int = 0
    running: Turn | None = None
    waiting: tuple[Turn, ...] = ()
    interrupted: str | None = None
    """The id of the task that requires input."""
    exists: bool = False
    expired: bool = False
    """True if only the fence is still in force."""

    @property
    def busy(self) -> bool:
        """True if a turn runs or waits."""
        return self.running is not None or bool(self.waiting)

    @property
    def active_task(self) -> str:
        """Return the task whose turn runs, or is the first that waits; "" if the context is free."""
        turn = self.running or next(iter(self.waiting), None)
        return turn.task_id if turn else ""

    def runs(self, task_id: str) -> bool:
        """True if a turn of this task runs."""
        return self.running is not None and self.running.task_id == task_id

    def waits_for(self, task_id: str) -> bool:
        """True if a turn of this task waits."""
        return any(turn.task_id == task_id for turn in self.waiting)

    def without(self, task_id: str) -> tuple[Turn, ...]:
        """Return the waiting turns of the other tasks."""
        return tuple(turn for turn in self.waiting if turn.task_id != task_id)

    def held_until(self) -> datetime | None:
        """Return the end of the running turn's lease; None if no turn runs, or nobody holds its lease."""
        return moment(self.until) if self.holder else None

    def lease(self, context: ContextKey) -> Lease:
        """Return the lease of the running turn."""
        assert self.running is not None  # noqa: S101  # the callers have looked
        return Lease(context, self.running, self.holder, self.fence)

    def has(self, turn: Turn, holder: str | None) -> bool:
        """True if this holder runs this turn."""
        return self.running is not None and self.running.id == turn.id and self.holder == holder


def task_of(context: ContextKey, turn: Turn) -> TaskKey:
    """Return the task of a turn of the context."""
    return TaskKey(context.owner, turn.task_id)


def milliseconds(at: datetime) -> int:
    """Return the time as whole milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def moment(since_1970: int) -> datetime:
    """Return the time that so many milliseconds since 1970 are."""
    return datetime.fromtimestamp(since_1970 / 1000, UTC)


def turn_to_begin(record: ContextRecord, now: int) -> Turn | LeaseHeld | None:
    """Return the turn that may begin: the one whose holder is gone, else the first that waits.

    Held while the holder's lease is in force; None if nothing waits, and while a task of the context requires input.
    """
    if record.running is not None:
        return LeaseHeld(record.fence, moment(record.until)) if record.until > now else record.running
    return None if record.interrupted is not None else next(iter(record.waiting), None)


# ── The item ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def record_of(item: Item | None, seconds: int) -> ContextRecord:
    """Return the context that the item holds at this time; of one that has expired, the fence, which has to grow on.

    Raises StoreCorrupt.
    """
    if item is None:
        return ContextRecord()
    try:
        fence, queue_version = item.get("fence", 0), item.get("line", 0)
        if item.get("expires", seconds + 1) <= seconds:
            return ContextRecord(fence, queue_version, exists=True, expired=True)
        return ContextRecord(
            fence=fence,
            queue_version=queue_version,
            holder=item.get("holder", ""),
            until=item.get("until", 0),
            running=turn_of(item["running"]) if "running" in item else None,
            waiting=tuple(turn_of(turn) for turn in item.get("waiting", [])),
            interrupted=item.get("interrupted"),
            exists=True,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreCorrupt("The record of a context cannot be read.") from error


def turn_of(fields: Mapping[str, Any]) -> Turn:
    """Return the turn that a context's item holds; items of version 1 know no hops."""
    return Turn(fields["id"], fields["task_id"], fields["asked"], fields["tries"], fields.get("hops", 0))


def turn_value(turn: Turn) -> dict[str, Any]:
    """Return the turn as a context's item holds it."""
    return {
        "id": turn.id,
        "task_id": turn.task_id,
        "asked": turn.message_generation,
        "tries": turn.tries,
        "hops": turn.handoffs,
    }


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────

NOTHING_RUNS = Absent("running")
NO_INPUT_REQUIRED = Absent("interrupted")
NOTHING_WAITS = ShorterThan("waiting", 1)
HAS_ROOM = ShorterThan("waiting", MAX_WAITING)
IS_BUSY = Either((Exists("running"), NotEmpty("waiting")))
NOBODY_HOLDS = ("holder", "until", "running")

MAY_WAIT = Both((HAS_ROOM, NO_INPUT_REQUIRED))
MAY_WAIT_BEHIND_OTHERS = Both((HAS_ROOM, NO_INPUT_REQUIRED, IS_BUSY))
MAY_WAIT_ALONE = Both((NOTHING_RUNS, NO_INPUT_REQUIRED, NOTHING_WAITS))


def fence_is(fence: int) -> Condition:
    """Return the condition that the lease of this fence is the newest."""
    return Equals("fence", fence)


def _is_mine(lease: Lease) -> Condition:
    return Both((fence_is(lease.fence), Equals("holder", lease.holder)))


def _queue_as_read(record: ContextRecord) -> Condition:
    # A queue that never changed has no number; neither has one of version 1.
    return Equals("line", record.queue_version) if record.queue_version else Absent("line")


def _has_expired(record: ContextRecord, times: Times) -> Condition:
    return Both((fence_is(record.fence), AtMost("expires", times.seconds)))


# ── A turn runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _leased(lease: Lease, times: Times, **more: Any) -> dict[str, Any]:
    return {
        "fence": lease.fence,
        "holder": lease.holder,
        "until": times.lease_until,
        "running": turn_value(lease.turn),
        "due_at": times.lease_until,
        **more,
    }


def acquired(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Run a new message's turn in a context that is free, new or expired."""
    values = _leased(lease, times, **times.ttl)
    if not record.exists:
        return Change(values, only_if=Absent())
    if record.expired:
        return Change(values, remove=("waiting", "interrupted"), only_if=_has_expired(record, times))
    free = Both((fence_is(record.fence), NOTHING_RUNS, NO_INPUT_REQUIRED, NOTHING_WAITS))
    return Change(values, only_if=free)


def acquired_for_input(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Run the turn of the answer to the task that required input."""
    asks = Equals("interrupted", lease.turn.task_id)
    return Change(
        _leased(lease, times, expires=times.expires),
        remove=("interrupted",),
        only_if=Both((fence_is(record.fence), NOTHING_RUNS, asks)),
    )


def acquired_next(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Run the first turn of the queue."""
    return Change(
        _leased(lease, times, line=record.queue_version + 1),
        drop_first=("waiting",),
        only_if=Both((fence_is(record.fence), NOTHING_RUNS, NO_INPUT_REQUIRED, _queue_as_read(record))),
    )


def acquired_abandoned(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Run the turn again whose holder is gone: it has not renewed its lease since that was read."""
    return Change(_leased(lease, times), only_if=Both((fence_is(record.fence), Equals("until", record.until))))


def acquired_interrupting(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Run the turn in the place of its task's running one, whose holder may be alive."""
    return Change(_leased(lease, times, expires=times.expires), only_if=fence_is(record.fence))


def renewed(lease: Lease, times: Times) -> Change:
    """Extend the lease for another term."""
    until = times.lease_until
    return Change({"until": until, "due_at": until, "expires": times.expires}, only_if=_is_mine(lease))


# ── A turn waits ──────────────────────────────────────────────────────────────────────────────────────────────────────


def queued(turn: Turn, only_if: Condition, times: Times, *, timer: bool = True) -> Change:
    """Append a turn to the queue; `timer` unless it waits for an input, which sets one."""
    return Change(
        times.ttl,
        defaults={"fence": 0, **({"due_at": times.lease_until} if timer else {})},
        add={"line": 1},
        append={"waiting": [turn_value(turn)]},
        only_if=only_if,
    )


def queued_anew(turn: Turn, record: ContextRecord, times: Times) -> Change:
    """Begin the queue of a context that has expired again, with this turn alone."""
    return Change(
        {"waiting": [turn_value(turn)], "line": record.queue_version + 1, "due_at": times.lease_until, **times.ttl},
        remove=("interrupted", *NOBODY_HOLDS),
        only_if=_has_expired(record, times),
    )


def queued_first(turn: Turn, record: ContextRecord, fence: int, times: Times, *, answers: bool) -> Change:
    """Put the turn before all that wait: the answer to the task that requires input, or one that interrupts its task."""
    expected = Both((NOTHING_RUNS, Equals("interrupted", turn.task_id))) if answers else Exists("running")
    return Change(
        {
            "waiting": [turn_value(each) for each in (turn, *record.waiting)],
            "line": record.queue_version + 1,
            "fence": fence,
            "due_at": times.lease_until,
            "expires": times.expires,
        },
        remove=("interrupted", *NOBODY_HOLDS),
        only_if=Both((fence_is(record.fence), _queue_as_read(record), expected)),
    )


# ── A turn ends ───────────────────────────────────────────────────────────────────────────────────────────────────────


def released(lease: Lease) -> Change:
    """Free the context: the turn is over, and nothing waits."""
    return Change(remove=(*NOBODY_HOLDS, "due_at"), only_if=Both((fence_is(lease.fence), NOTHING_WAITS)))


def released_for_input(lease: Lease) -> Change:
    """Free the context and note the task that requires input; what waits waits for the answer."""
    return Change({"interrupted": lease.turn.task_id}, remove=(*NOBODY_HOLDS, "due_at"), only_if=fence_is(lease.fence))


def released_for_next(record: ContextRecord, times: Times) -> Change:
    """Leave the next turn of the queue to somebody else."""
    return Change(
        {"due_at": times.lease_until},
        remove=NOBODY_HOLDS,
        only_if=Both((fence_is(record.fence), _queue_as_read(record))),
    )


def transferred(lease: Lease, record: ContextRecord, times: Times) -> Change:
    """Run the next turn of the queue under this lease, at the end of the one before."""
    return Change(
        _leased(lease, times, line=record.queue_version + 1),
        drop_first=("waiting",),
        only_if=Both((fence_is(record.fence), _queue_as_read(record))),
    )


def suspended(lease: Lease, turn: Turn, times: Times) -> Change:
    """Leave the turn, which is not over, to whoever begins it next."""
    return Change(
        # Lease without holder and end: a process whose clock is behind must not take it for one in force.
        {"until": 0, "running": turn_value(turn), "expires": times.expires, "due_at": times.lease_until},
        remove=("holder",),
        only_if=_is_mine(lease),
    )


def removed(task_id: str, record: ContextRecord, fence: int, times: Times) -> Change:
    """Remove every turn of a task that has ended, or is gone; it requires no input any more."""
    waiting = record.without(task_id)
    runs, asks = record.runs(task_id), record.interrupted == task_id
    another_runs = record.running is not None and not runs
    another_asks = record.interrupted is not None and not asks
    remove = (*(NOBODY_HOLDS if runs else ()), *(("interrupted",) if asks else ()))
    values: dict[str, Any] = {
        "waiting": [turn_value(turn) for turn in waiting],
        "line": record.queue_version + 1,
        "fence": fence,
    }
    if waiting and not another_runs and not another_asks:
        values["due_at"] = times.lease_until
    elif not another_runs:
        remove = (*remove, "due_at")
    return Change(values, remove=remove, only_if=Both((fence_is(record.fence), _queue_as_read(record))))
